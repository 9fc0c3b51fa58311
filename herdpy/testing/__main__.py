"""``python -m herdpy.testing``: fetch the jars, and print where they are."""

import sys

from herdpy.testing.errors import MissingSoftwareError
from herdpy.testing.java import jars

try:
    print(jars())
except MissingSoftwareError as error:
    sys.exit(str(error))
