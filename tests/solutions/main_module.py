import os
import sys

print(__name__, os.path.basename(__file__), sys.argv, sys.path[0] == os.getcwd(), sorted(globals()))
