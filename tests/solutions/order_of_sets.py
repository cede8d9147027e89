print(list({"a", "b", "c", "d", "e"}), hash("text"), sorted(set("hello"), key=hash))
