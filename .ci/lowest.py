"""Print the lowest versions that pyproject.toml names, for pip, but for packages in the arguments."""

import re
import sys
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
extras = project["optional-dependencies"]
needed = [*project["dependencies"], *(one for name, of in extras.items() if name != "dev" for one in of)]
for one in sorted(set(needed)):
    name, bound = re.fullmatch(r"([\w-]+)(?:\[.*\])?(?:>=(.*))?", one).groups()
    if bound and name not in sys.argv[1:]:
        print(f"{name}=={bound}")
