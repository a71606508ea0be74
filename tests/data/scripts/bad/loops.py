import subprocess
import sys

subprocess.Popen(["sleep", sys.argv[1]], start_new_session=True)
print("started", flush=True)
while True:
    pass
