"""`python -m levada` is the `levada` command."""

import sys

from levada.cli.main import main

sys.exit(main())
