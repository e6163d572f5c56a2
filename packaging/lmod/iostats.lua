-- The user side of iostats: a virtual environment with `pip install 'iostats[server]'`, below `top`.
-- docs/how-to/modules.md
local version = myModuleVersion()
local top = pathJoin(os.getenv("IOSTATS_TOP") or "/opt/iostats", version)

help([[
iostats run -- srun ./app      measure one job, in its job script
iostats report JOB             show a finished job, at a site that measures all of them
man iostats
]])
whatis("Name: iostats")
whatis("Version: " .. version)
whatis("Category: performance")
whatis("Description: what a job did to Lustre, and what to change")

-- The commands alone: PYTHONPATH and the user's own Python stay as they are.
prepend_path("PATH", pathJoin(top, "commands"))
prepend_path("MANPATH", pathJoin(top, "share/man") .. ":")
