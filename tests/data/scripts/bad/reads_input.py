name = input("your name: ")
