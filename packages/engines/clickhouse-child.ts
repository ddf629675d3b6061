// The process of the embedded ClickHouse server. Forked by clickhouse.ts; its argument is the engine's folder.
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { isatty } from 'node:tty'
import { DataType, load, open } from 'ffi-rs'
import { serverStatements } from './clickhouse-config.ts'
import { exitWithParent } from './exit-with-parent.ts'

// A killed ClickHouse loses nothing that it has acknowledged, and a regular shutdown crashes in the library (tried).
exitWithParent(() => process.kill(process.pid, 'SIGKILL'))

const [dir = ''] = process.argv.slice(2)
// Without a terminal the library ends the process at an exception of any connection's thread, such as a client's reset
// of the connection (ClickHouse issue 115666). With a terminal it logs the exception, as a server does.
const interactive = isatty(0) ? ['--interactive'] : []
const argv = ['clickhouse', `--config-file=${join(dir, 'config.xml')}`, ...interactive, '-q', serverStatements]

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

/** Reports the failure and ends the process: the server never ends otherwise. */
function fail(error: string): void {
  if (!process.send) process.kill(process.pid, 'SIGKILL')
  process.send?.({ failed: error }, () => process.kill(process.pid, 'SIGKILL'))
}

/** The chdb package has a library per platform; the package manager installs the right one. */
function findLibrary(): string {
  const libc = process.platform === 'linux' ? '-gnu' : ''
  const name = `@chdb/lib-${process.platform}-${process.arch}${libc}`
  try {
    const chdb = import.meta.resolve('chdb/package.json')
    return join(dirname(createRequire(chdb).resolve(`${name}/package.json`)), 'libchdb.so')
  } catch (error) {
    throw new Error(
      `the npm package ${name} is not installed, which the lock file names for Linux x64 alone: ` +
        'set SLUICE_CLICKHOUSE_URL to a ClickHouse server, e.g. https://user:password@host:8443/sluice',
      { cause: error },
    )
  }
}
