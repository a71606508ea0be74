import subprocess

subprocess.Popen(["sleep", "613"], start_new_session=True)
while True:
    pass
