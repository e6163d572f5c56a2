#!/bin/sh
# The command iostats, as `make install-...` has put it in place.
case ${1-} in
start | mark | watch | stop | show | doctor | prolog | epilog | deliver | harvest)
    exec @PYTHON@ -I -S @LIBDIR@/iostats_client.py "$@" ;;
esac
python=@LIBDIR@/venv/bin/python
[ -x "$python" ] || python=@PYTHON@
exec "$python" -I -c 'import os, sys
os.umask(os.umask(0o022) | 0o022)
sys.path.insert(0, "@LIBDIR@")
from iostats.__main__ import main
sys.exit(main())' "$@"
