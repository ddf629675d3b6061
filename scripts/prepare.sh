# Sourced by the scripts of package.json before they start their program: `. scripts/prepare.sh && exec node …`.
node scripts/setup.mjs || exit
# The installation includes Node 24. The shell may remember the path of another `node`, so it has to look again.
hash -r
# Node caches compiled modules here: a service then loads in 0.3 s instead of 1.1 s.
export NODE_COMPILE_CACHE="$PWD/node_modules/.cache/node"
