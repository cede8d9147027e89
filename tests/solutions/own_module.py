with open("mine.py", "w") as file:
    file.write("x = 41")
import mine

print(mine.x + 1, mine.__name__)
