"""`make bench`: run every measurement there is."""

from benchmarks import due

if __name__ == "__main__":
    due.main()
