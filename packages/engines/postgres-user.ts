import { execFileSync } from 'node:child_process'
import { accessSync, constants, readFileSync, statSync } from 'node:fs'
import { dirname } from 'node:path'

/** How to run Postgres, which refuses to run as root. */
export interface Runner {
  /** User that owns the files of Postgres; undefined for the user of this process. */
  uid?: number
  gid?: number
  /** Words before the command that change the user; when empty, the spawning process sets `uid` and `gid`. */
  prefix: readonly string[]
}

const userName = 'postgres'
/** The command is the same on Debian, Red Hat and SUSE. */
const addUser = 'useradd'

/**
 * For an ordinary user: the same user. For root: the system user `postgres`, created if missing. If that user can't
 * enter the folders above `paths` (below /root, for example), `setpriv` gives it the right to pass through any folder.
 * Throws when none of these work.
 */
export function unprivilegedRunner(paths: readonly string[]): Runner {
  if (process.getuid?.() !== 0) return { prefix: [] }
  const ids = findUser() ?? makeUser()
  const closed = paths.map((path) => findClosedFolder(path, ids)).find((folder) => folder !== undefined)
  if (closed === undefined) return { ...ids, prefix: [] }

  const setpriv = ['/usr/bin/setpriv', '/bin/setpriv'].find(isExecutable)
  if (setpriv === undefined) {
    throw new Error(
      `Postgres can't run as root, and the user ${userName} can't enter ${closed}: ` +
        'run Sluice as an ordinary user or from another folder, or set SLUICE_POSTGRES_URL',
    )
  }
  const caps = `+${passingCapability()}`
  return {
    ...ids,
    prefix: [
      setpriv,
      `--reuid=${ids.uid}`,
      `--regid=${ids.gid}`,
      '--clear-groups',
      `--inh-caps=${caps}`,
      `--ambient-caps=${caps}`,
      // initdb uses access(2) to find `postgres` beside it. Without this flag, access(2) takes all capabilities for
      // absent.
      '--securebits=+no_setuid_fixup',
    ],
  }
}

interface Ids {
  uid: number
  gid: number
}

function findUser(): Ids | undefined {
  const id = (flag: string): number =>
    Number(execFileSync('id', [flag, userName], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }))
  try {
    return { uid: id('-u'), gid: id('-g') }
  } catch {
    return undefined
  }
}

function makeUser(): Ids {
  let reason: unknown
  try {
    execFileSync(addUser, ['--system', '--user-group', '--no-create-home', '--shell', '/usr/sbin/nologin', userName], {
      stdio: 'pipe',
    })
  } catch (error) {
    reason = error
  }
  const ids = findUser()
  if (ids) return ids
  throw new Error(
    `Postgres can't run as root, and no system user ${userName} could be made: ` +
      'run Sluice as an ordinary user, or set SLUICE_POSTGRES_URL',
    { cause: reason },
  )
}

/**
 * The first folder above `path` that the user may not enter; undefined when all are open. `path` itself gets the user
 * as its owner.
 */
function findClosedFolder(path: string, { uid, gid }: Ids): string | undefined {
  const parent = dirname(path)
  if (parent === path) return undefined
  const stat = statSync(parent)
  const bit = stat.uid === uid ? 0o100 : stat.gid === gid ? 0o010 : 0o001
  return findClosedFolder(parent, { uid, gid }) ?? ((stat.mode & bit) === 0 ? parent : undefined)
}

/**
 * The weaker one of the two capabilities that allow entering any folder, if this process has it; containers often lack
 * it. Bits of capabilities(7).
 */
function passingCapability(): 'dac_read_search' | 'dac_override' {
  const mask = /^CapEff:\s*([0-9a-f]+)$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1] ?? '0'
  return BigInt(`0x${mask}`) & 0b100n ? 'dac_read_search' : 'dac_override'
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK)
    return true
  } catch {
    return false
  }
}
