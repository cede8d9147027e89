import threading

threading.Thread(target=print, args=("from a thread",)).start()
