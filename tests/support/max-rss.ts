import { readFile } from 'node:fs/promises'

/** The most memory that a process has had, in bytes (Linux). */
export async function maxRssBytes(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  return Number(/VmHWM:\s+(\d+) kB/.exec(status)?.[1]) * 1024
}
