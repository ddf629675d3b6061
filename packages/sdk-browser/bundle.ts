import { fileURLToPath } from 'node:url'
import { minify } from '@swc/core'
import { build, type Plugin } from 'esbuild'

/**
 * Names of internal properties, which esbuild may shorten: the SDK uses no property of the browser with such a name.
 */
const ownNames = [
  'bytes',
  'change',
  'end',
  'endpoint',
  'forget',
  'ids',
  'isAllowed',
  'isBusy',
  'isFixed',
  'leave',
  'list',
  'load',
  'loaded',
  'name',
  'next',
  'notice',
  'onRoom',
  'onTime',
  'afterMs',
  'began',
  'more',
  'queue',
  'read',
  'refused',
  'remove',
  'report',
  'save',
  'sender',
  'skew',
  'stop',
  'swap',
  'text',
  'visitor',
]

/** Names that are stored in browsers, where scripts of other releases read them: they are the same in every build. */
const storedNames = { began: 'b', skew: 'k' }

/**
 * The SDK as one minified script: `snippet` for a script element, `index` as a module of npm. swc makes it smaller by a
 * tenth than esbuild does, which in turn shortens the names of properties. `external`: modules that are left out.
 * `plugins`: tests put bugs into the SDK that must be noticed.
 */
export async function bundle(
  entry: 'snippet' | 'index' | 'core',
  { external = [], plugins = [] }: { external?: string[]; plugins?: Plugin[] } = {},
): Promise<string> {
  const { outputFiles } = await build({
    absWorkingDir: fileURLToPath(new URL('.', import.meta.url)),
    entryPoints: [`src/${entry}.ts`],
    bundle: true,
    write: false,
    logLevel: 'warning',
    format: entry === 'snippet' ? 'iife' : 'esm',
    target: ['chrome111', 'firefox114', 'safari16.4'],
    mangleProps: new RegExp(`^(${ownNames.join('|')})$`),
    mangleCache: storedNames,
    // Without it, esbuild writes "use strict", which nothing depends on.
    tsconfigRaw: { compilerOptions: { alwaysStrict: false } },
    external,
    plugins,
  })
  const { code } = await minify(outputFiles[0]?.text ?? '', {
    compress: { passes: 3, keep_fargs: false, hoist_vars: true, ecma: 2020, unsafe_arrows: true, pure_getters: true },
    mangle: true,
    ecma: 2022,
    module: entry !== 'snippet',
  })
  return code
}
