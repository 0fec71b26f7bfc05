"""Runs a test file under Bazel, with the python3 on PATH and the packages that are installed there.

Bazel may start this file with an interpreter of its own that sees none of them.
"""

import os
import sys

if __name__ == "__main__":
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment["PYTHONPATH"] = os.getcwd()  # the runfiles: the files that the test's target names
    if "TEST_TMPDIR" in environment:  # matplotlib says so when it may not write in the home directory
        environment["MPLCONFIGDIR"] = environment["TEST_TMPDIR"]
    os.execvpe("python3", ["python3", "-m", "pytest", "-p", "no:cacheprovider", *sys.argv[1:]], environment)
