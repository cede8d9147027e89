import atexit

atexit.register(print, "last")
file = open("submission.csv", "w")
file.write("id,y\n1,2\n")
