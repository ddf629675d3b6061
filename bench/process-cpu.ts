import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'

/** Clock ticks per second of Linux, on all architectures that Node supports. */
const ticksPerSecond = 100

/**
 * CPU seconds of a process since its start, including its threads and its running and ended children. The children of
 * this process are not included, because they are measured themselves.
 */
export function cpuSecondsOf(pid: number): number {
  if (pid === process.pid) {
    const { user, system } = process.cpuUsage()
    return (user + system) / 1e6
  }
  return [pid, ...descendantsOf(pid)].reduce((sum, each) => sum + ownCpuSeconds(each), 0)
}

function ownCpuSeconds(pid: number): number {
  const fields = statFields(pid)
  // User and system time, and those of children that have ended: fields 14 to 17 of proc(5).
  return fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks), 0) / ticksPerSecond
}

/** The fields of /proc/<pid>/stat from the third on; none once the process has ended. */
function statFields(pid: number): string[] {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
    // The second field is a name in parentheses, which may contain any character.
    return text.slice(text.lastIndexOf(')') + 2).split(' ')
  } catch {
    return []
  }
}

function descendantsOf(pid: number): number[] {
  const parents = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((name) => ({ child: Number(name), parent: Number(statFields(Number(name))[1]) }))
  const below = (of: number): number[] =>
    parents.filter(({ parent }) => parent === of).flatMap(({ child }) => [child, ...below(child)])
  return below(pid)
}

/** The cores that this process may use, in the form of `taskset`: `0-3,8`. */
function allowedCores(): string {
  return /^Cpus_allowed_list:\s+(\S+)$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1] ?? ''
}

function numbersIn(cores: string): number[] {
  return cores.split(',').flatMap((range) => {
    const [first = 0, last = first] = range.split('-').map(Number)
    return Array.from({ length: last - first + 1 }, (_, n) => first + n)
  })
}

export interface PinnedProcesses {
  /** The core of each process. */
  cores: Record<string, number>
  /** Lets this process use all of its cores again. */
  release: () => void
}

/** Assigns a core to each process, in order; after the last core, it begins again with the first. */
export function pinToCores(pids: Readonly<Record<string, number>>): PinnedProcesses {
  const allowed = allowedCores()
  const numbers = numbersIn(allowed)
  const cores = Object.fromEntries(Object.keys(pids).map((name, n) => [name, numbers[n % numbers.length] ?? 0]))
  for (const [name, pid] of Object.entries(pids)) pin(pid, String(cores[name]))
  return {
    cores,
    release: () => pin(process.pid, allowed),
  }
}

/**
 * Binds a process with its threads, its children and all processes that it starts later; for this process, without its
 * children.
 */
function pin(pid: number, cores: string): void {
  for (const each of pid === process.pid ? [pid] : [pid, ...descendantsOf(pid)]) {
    try {
      execFileSync('taskset', ['--all-tasks', '--cpu-list', '--pid', cores, String(each)], { stdio: 'pipe' })
    } catch (error) {
      throw new Error('taskset failed; it needs Linux (Debian: apt-get install util-linux)', { cause: error })
    }
  }
}
