import sys

print("no")
sys.exit("that is all")
