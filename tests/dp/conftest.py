import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # the enumeration is shared by the tests of every move
