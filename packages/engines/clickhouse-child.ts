// The process that is the embedded ClickHouse server. Forked by clickhouse.ts; its one argument is the engine's folder.
import { DataType, load, open } from 'ffi-rs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { serveForever } from './clickhouse-config.ts'
import { tieToParent } from './tie-to-parent.ts'

// ClickHouse loses nothing that it has acknowledged when it is killed, and its own way down crashes in the library (tried).
tieToParent(() => process.kill(process.pid, 'SIGKILL'))

const [dir = ''] = process.argv.slice(2)
const argv = ['clickhouse', `--config-file=${join(dir, 'config.xml')}`, '-q', serveForever]

try {
  open({ library: 'chdb', path: findLibrary() })
  const result = await load({
    library: 'chdb',
    funcName: 'chdb_query_cmdline',
    retType: DataType.External,
    paramsType: [DataType.I32, DataType.StringArray],
    paramsValue: [argv.length, argv],
    runInNewThread: true, // leaves this thread free to notice the parent's end
  })
  const error = load({
    library: 'chdb',
    funcName: 'chdb_result_error',
    retType: DataType.String,
    paramsType: [DataType.External],
    paramsValue: [result],
  })
  fail(error)
} catch (error) {
  fail(error instanceof Error ? error.message : String(error))
}

/** The server only ever ends by a failure. */
function fail(error: string): void {
  if (!process.send) process.kill(process.pid, 'SIGKILL')
  process.send?.({ failed: error }, () => process.kill(process.pid, 'SIGKILL'))
}

/** The chdb package carries a library per platform; a package manager installs the one that fits. */
function findLibrary(): string {
  const libc = process.platform === 'linux' ? '-gnu' : ''
  const name = `@chdb/lib-${process.platform}-${process.arch}${libc}`
  try {
    const chdb = import.meta.resolve('chdb/package.json')
    return join(dirname(createRequire(chdb).resolve(`${name}/package.json`)), 'libchdb.so')
  } catch (error) {
    throw new Error(`the npm package ${name} is not installed`, { cause: error })
  }
}
