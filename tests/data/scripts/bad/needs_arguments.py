import argparse

parser = argparse.ArgumentParser()
parser.add_argument("data")
parser.parse_args()
