# Read by the scripts of package.json before they start their program: `. scripts/prepare.sh && exec node …`.
node scripts/setup.mjs || exit
# An installation brings Node 24; a shell that remembers where it found `node` before must look again.
hash -r
# Compiled modules are kept: loading a service takes 0.3 s instead of 1.1 s.
export NODE_COMPILE_CACHE="$PWD/node_modules/.cache/node"
