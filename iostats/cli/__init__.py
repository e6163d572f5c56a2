"""The roles: each reads its command line, calls the hands, and ends with an exit status."""
