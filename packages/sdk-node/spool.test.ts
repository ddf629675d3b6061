import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import {
  appendFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, jest, test } from '@jest/globals'
import { waitUntil } from '@sluice/runtime/wait-until'
import { useSdk } from '../../tests/sdk-node/use-sdk.ts'
import { mountTmpfs, testWithTmpfs, unmount } from '../../tests/support/tmpfs.ts'
import { openSluice } from './open-sluice.ts'
import { openSpool, type Spool } from './spool.ts'
import { encodeLine } from './spool-lines.ts'
import type { Receipt, SluiceError } from './types.ts'

const moduleUrl = new URL('index.ts', import.meta.url).href

const sdk = useSdk()
const { errors } = sdk
let root: string
let folder: string
let site: string
let sites = 0
const children: ChildProcess[] = []

beforeAll(() => {
  root = mkdtempSync(join(tmpdir(), 'sluice-spool-'))
})

beforeEach(() => {
  folder = mkdtempSync(join(root, 'spool-'))
  site = `spool-${sites++}`
})

afterEach(() => {
  for (const child of children.splice(0)) child.kill('SIGKILL')
})

afterAll(() => {
  rmSync(root, { recursive: true, force: true })
})

const open = (more: { spool?: string; spoolBytesMax?: number; site?: string } = {}) =>
  sdk.open(more.site ?? site, { spool: folder, ...more })

const files = () => readdirSync(folder).map((name) => join(folder, name))
const content = () =>
  files()
    .map((path) => readFileSync(path, 'utf8'))
    .join('')
const storedIds = async (count: number) => (await sdk.gateway.stored(site, count)).map(({ row }) => row.event_id).sort()
const idsOf = (receipts: readonly Receipt[]) => receipts.map(({ event_id }) => event_id).sort()
const codes = () => errors.map(({ code }) => code)

/** A process that tracks events, prints their receipts, and stays. */
async function startTracker(count: number): Promise<{ child: ChildProcess; receipts: Receipt[] }> {
  const script = `
    import { createSluice } from ${JSON.stringify(moduleUrl)}
    const sluice = createSluice(JSON.parse(process.argv[1]))
    const receipts = Array.from({ length: ${count} }, (_, n) => sluice.track('view', { n }))
    console.log(JSON.stringify(receipts))
    setInterval(() => {}, 1000)`
  const options = JSON.stringify({ url: sdk.proxy.url, key: sdk.gateway.keys.prod, site, spool: folder })
  const child = spawn(process.execPath, ['--input-type=module', '-e', script, options], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  children.push(child)
  let output = ''
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()))
  await waitUntil(() => output.endsWith('\n'), 'the process has tracked its events')
  return { child, receipts: JSON.parse(output) as Receipt[] }
}

async function kill(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  const ended = new Promise((resolve) => child.once('exit', resolve))
  child.kill(signal)
  await ended
}

const away = () => {
  sdk.proxy.treat = () => ({ kind: 'cut-before' })
}
const back = () => {
  sdk.proxy.treat = () => ({ kind: 'forward' })
}

describe('a spool', () => {
  test('has each event in a file when track returns, readable by its owner alone, and none once Sluice has answered', async () => {
    const sluice = open()
    const { event_id } = sluice.track('view')
    expect(content()).toContain(event_id)
    expect(
      execFileSync('stat', ['-c', '%a', ...files()])
        .toString()
        .trim(),
    ).toBe('600')
    expect(await sluice.flush()).toEqual({ sent: 1, pending: 0, rejected: 0 })
    expect(content()).toBe('')
    await sluice.close()
    expect(files()).toEqual([])
  })

  test('keeps what Sluice has not answered for until the next start, which sends it', async () => {
    away()
    const first = open()
    const receipts = [first.track('view'), first.track('view')]
    expect(await first.close({ timeoutMs: 50 })).toMatchObject({ pending: 2 })
    expect(codes()).toEqual([])
    back()
    expect(await open().flush()).toEqual({ sent: 2, pending: 0, rejected: 0 })
    expect(await storedIds(2)).toEqual(idsOf(receipts))
    expect(files()).toEqual([])
  })

  test('of a process that was killed is sent by the next, at once', async () => {
    away()
    const { child, receipts } = await startTracker(50)
    await kill(child, 'SIGKILL')
    back()
    expect(await open().flush()).toEqual({ sent: 50, pending: 0, rejected: 0 })
    expect(await storedIds(50)).toEqual(idsOf(receipts))
    expect(files()).toEqual([])
  })

  test('of a process that lives is left alone, by several clients in one process too', async () => {
    away()
    await startTracker(3)
    const first = open()
    first.track('view')
    const before = files()
    const second = open()
    expect(await second.flush({ timeoutMs: 50 })).toEqual({ sent: 0, pending: 0, rejected: 0 })
    expect(files().sort()).toEqual(before.sort())
  })

  test('of a process that stood still is taken over, and what it writes later is not lost', async () => {
    away()
    const { child, receipts } = await startTracker(3)
    child.kill('SIGSTOP')
    const long = new Date(Date.now() - 3_600_000)
    for (const path of files()) utimesSync(path, long, long)
    const second = open()
    const isTaken = async () => (await second.flush({ timeoutMs: 10 })).pending === 3
    await waitUntil(isTaken, 'the file is taken over and its events wait')
    // As the process would, which has the file open.
    const late = `late-${site}`
    const json = JSON.stringify({ site_id: site, event_type: 'view', event_id: late, timestamp: Date.now() })
    const event = { event_id: late, timestamp: 0, json, bytes: json.length, isTimeFinal: true }
    appendFileSync(files()[0] ?? '', encodeLine(event))
    back()
    expect(await second.flush()).toMatchObject({ sent: 3, pending: 0 })
    await second.close()
    expect(await open().flush()).toMatchObject({ pending: 0 })
    // An event may have been sent twice: a request that timed out may have arrived.
    const areStored = async () => {
      const stored = await storedIds(4)
      return [...idsOf(receipts), late].every((id) => stored.includes(id))
    }
    await waitUntil(areStored, 'every event is stored')
  })

  test('skips damaged lines, and a last line that was cut off, and reports their number', async () => {
    away()
    const { child, receipts } = await startTracker(3)
    await kill(child, 'SIGKILL')
    const [path = ''] = files()
    const lines = readFileSync(path, 'utf8').split('\n')
    rmSync(path)
    const damaged = [lines[0], lines[1]?.replace('view', 'v1ew'), lines[2]?.slice(0, 40)].join('\n')
    appendFileSync(path, damaged)
    back()
    expect(await open().flush()).toEqual({ sent: 1, pending: 0, rejected: 0 })
    expect(await storedIds(1)).toEqual(idsOf(receipts.slice(0, 1)))
    expect(errors.map(({ code, count }) => [code, count])).toEqual([['spool_corrupt', 2]])
  })

  test('gives a good time to an event that a clock ahead has dated, and that a process with a slow clock sends', async () => {
    away()
    const options = { url: sdk.proxy.url, key: sdk.gateway.keys.prod, site, spool: folder }
    const day = 86_400_000
    const ahead = openSluice<Record<string, object>>(options, () => Date.now() + 3 * day)
    void ahead.track('view')
    await ahead.close({ timeoutMs: 0 })
    back()
    const onError = (error: SluiceError) => errors.push(error)
    const slow = openSluice<Record<string, object>>({ ...options, onError }, () => Date.now() - day / 24)
    expect(await slow.flush()).toEqual({ sent: 1, pending: 0, rejected: 0 })
    await slow.close()
    expect(Math.abs(((await sdk.gateway.stored(site, 1))[0]?.row.timestamp ?? 0) - Date.now())).toBeLessThan(60_000)
    expect(codes()).toEqual(['clock_wrong'])
  })

  test('of another site is left alone', async () => {
    away()
    await open({ site: 'another' }).close({ timeoutMs: 50 })
    const other = open({ site: 'another' })
    other.track('view')
    await other.close({ timeoutMs: 50 })
    back()
    expect(await open().flush()).toEqual({ sent: 0, pending: 0, rejected: 0 })
    expect(files()).toHaveLength(1)
  })

  test('that is full is reported once, events go on in memory, and are written when there is room again', async () => {
    away()
    const sluice = open({ spoolBytesMax: 600 })
    const receipts = [1, 2, 3, 4, 5, 6].map((n) => sluice.track('view', { n }))
    expect(codes()).toEqual(['spool_failed'])
    expect(errors[0]?.message).toContain('spoolBytesMax')
    back()
    expect(await sluice.flush()).toMatchObject({ sent: 6 })
    expect(await storedIds(6)).toEqual(idsOf(receipts))
  })

  test('begins a new file after 1 MiB, and removes a file when Sluice has answered for all of it', async () => {
    away()
    const sluice = open()
    for (let n = 0; n < 100; n++) sluice.track('view', { text: 'x'.repeat(20_000 / 10), list: 'y'.repeat(2_000), n })
    for (let n = 0; n < 300; n++) sluice.track('view', { a: 'x'.repeat(2_000), b: 'y'.repeat(2_000), n })
    expect(files().length).toBeGreaterThan(1)
    back()
    expect(await sluice.flush({ timeoutMs: 30_000 })).toMatchObject({ sent: 400, pending: 0 })
    expect(files()).toHaveLength(1)
    expect(content()).toBe('')
  })

  test('whose file has disappeared writes its events to another one', () => {
    away()
    const sluice = open()
    const { event_id } = sluice.track('view')
    for (const path of files()) rmSync(path)
    // As if the process had stood still for a minute: it looks for its files before the next write.
    const now = Date.now
    Date.now = () => now() + 60_000
    try {
      sluice.track('view')
    } finally {
      Date.now = now
    }
    expect(content()).toContain(event_id)
  })

  test('whose folder was removed makes it again, and writes its events anew', () => {
    away()
    const sluice = open()
    const first = sluice.track('view')
    rmSync(folder, { recursive: true })
    const second = sluice.track('view')
    for (const { event_id } of [first, second]) expect(content()).toContain(event_id)
    expect(codes()).toEqual([])
  })
})

test('an event that got another time is sent with it after a restart, too', () => {
  const parts = { folder, scope: '0123456789ab', bytesMax: 1e6, report: () => undefined, onTaken: () => undefined }
  const spool = openSpool(parts)
  const event = { event_id: 'e1', timestamp: 5, json: '{"event_id":"e1","timestamp":5}', bytes: 31, isTimeFinal: false }
  const other = { ...event, timestamp: 7, json: '{"event_id":"e1","timestamp":7}', isTimeFinal: true }
  const file = spool.append(event)
  expect(file && spool.replace(file, other, 5)).toBe(true)
  spool.close()
  const next = openSpool(parts)
  return next.takeOrphan().then((orphan) => {
    expect(orphan?.events).toEqual([other])
    next.close()
  })
})

test('an event in memory is written when the folder works again, also when nothing more is tracked', () => {
  jest.useFakeTimers({ doNotFake: ['setImmediate', 'nextTick', 'queueMicrotask'] })
  try {
    away()
    const sluice = open()
    rmSync(folder, { recursive: true })
    writeFileSync(folder, '')
    const { event_id } = sluice.track('view')
    expect(codes()).toEqual(['spool_failed'])
    rmSync(folder)
    mkdirSync(folder)
    jest.advanceTimersByTime(30_000)
    expect(content()).toContain(event_id)
  } finally {
    jest.useRealTimers()
  }
})

test('a file of another machine is taken over once nothing has touched it for 60 s', async () => {
  const parts = { folder, scope: '0123456789ab', bytesMax: 1e6, report: () => undefined, onTaken: () => undefined }
  const name = `sluice-${parts.scope}-00000000-1-0-00000000-0000-0000-0000-000000000000.spool`
  const event = { event_id: 'e1', timestamp: 5, json: '{"event_id":"e1","timestamp":5}', bytes: 31, isTimeFinal: true }
  writeFileSync(join(folder, name), encodeLine(event))
  const spool = openSpool(parts)
  const takeAfter = (idleMs: number) => {
    const touchedAt = new Date(Date.now() - idleMs)
    utimesSync(join(folder, name), touchedAt, touchedAt)
    return spool.takeOrphan()
  }
  try {
    expect(await takeAfter(50_000)).toBeUndefined()
    expect(await takeAfter(60_100)).toMatchObject({ events: [event] })
  } finally {
    spool.close()
  }
})

describe('a file that another container with the same host name and process id takes over', () => {
  const parts = { scope: '0123456789ab', bytesMax: 1e6, report: () => undefined, onTaken: () => undefined }
  const event = (id: string) => {
    const json = JSON.stringify({ event_id: id, timestamp: 5 })
    return { event_id: id, timestamp: 5, json, bytes: json.length, isTimeFinal: true }
  }
  const openHere = () => openSpool({ ...parts, folder })
  /** The other process does not know which files this one writes to. */
  const takeOver = async (spool: Spool) => {
    ;(Reflect.get(globalThis, Symbol.for('@sluice/node spool files')) as Set<unknown>).clear()
    const orphan = await spool.takeOrphan()
    if (!orphan) throw new Error('the file was not taken over')
    return orphan.file
  }
  let owner: Spool
  let other: Spool

  beforeEach(() => {
    owner = openHere()
    other = openHere()
  })

  afterEach(() => {
    owner.close()
    other.close()
  })

  test('is not deleted with events that its owner writes after an answer', async () => {
    const file = owner.append(event('before'))
    const taken = await takeOver(other)
    if (file) owner.done(file)
    owner.append(event('after'))
    other.done(taken)
    expect(content()).toContain('"after"')
  })

  test('is no longer written to once the other has deleted it', async () => {
    owner.append(event('before'))
    other.done(await takeOver(other))
    owner.append(event('after'))
    expect(content()).toContain('"after"')
  })
})

test('a file with bytes that are no UTF-8 is deleted once its events are answered', async () => {
  const parts = { folder, scope: '0123456789ab', bytesMax: 1e6, report: () => undefined, onTaken: () => undefined }
  const spool = openSpool(parts)
  spool.append({ event_id: 'e1', timestamp: 5, json: '{"event_id":"e1","timestamp":5}', bytes: 31, isTimeFinal: false })
  spool.close()
  appendFileSync(files()[0] ?? '', Buffer.from([0xff, 0xff]))
  const next = openSpool(parts)
  const orphan = await next.takeOrphan()
  if (orphan) next.done(orphan.file)
  expect(files()).toEqual([])
  next.close()
})

test('a file that can’t be removed is reported, and ends nothing', async () => {
  const reports: string[] = []
  const report = (code: string) => reports.push(code)
  const parts = { folder, scope: '0123456789ab', bytesMax: 1e6, report, onTaken: () => undefined }
  const spool = openSpool(parts)
  spool.append({ event_id: 'e1', timestamp: 5, json: '{"event_id":"e1","timestamp":5}', bytes: 31, isTimeFinal: false })
  spool.close()
  const next = openSpool(parts)
  const orphan = await next.takeOrphan()
  if (!orphan) throw new Error('the file was not taken over')
  // Nobody can remove a folder as a file.
  rmSync(orphan.file.path)
  mkdirSync(orphan.file.path)
  orphan.file.bytes = statSync(orphan.file.path).size
  next.done(orphan.file)
  expect(reports).toEqual(['spool_failed'])
  next.close()
})

test('a file that can’t be read is reported, and read later', async () => {
  const reports: string[] = []
  const report = (code: string, message: string) => reports.push(`${code} ${message}`)
  const parts = { folder, scope: '0123456789ab', bytesMax: 1e6, report, onTaken: () => undefined }
  const spool = openSpool(parts)
  spool.append({ event_id: 'e1', timestamp: 5, json: '{"event_id":"e1","timestamp":5}', bytes: 31, isTimeFinal: false })
  spool.close()
  const [path = ''] = files()
  const text = readFileSync(path)
  // Nobody can read a folder as a file.
  rmSync(path)
  mkdirSync(path)
  const next = openSpool(parts)
  expect(await next.takeOrphan()).toBeUndefined()
  expect(reports).toEqual([expect.stringMatching(/^spool_failed .*EISDIR/)])
  const [released = ''] = files()
  rmSync(released, { recursive: true })
  writeFileSync(released, text)
  expect((await next.takeOrphan())?.events).toMatchObject([{ event_id: 'e1' }])
  next.close()
})

test('a folder that fails while nothing is tracked is reported, and ends nothing', () => {
  jest.useFakeTimers({ doNotFake: ['setImmediate', 'nextTick', 'queueMicrotask', 'performance'] })
  const reports: string[] = []
  const report = (code: string) => reports.push(code)
  const spool = openSpool({ folder, scope: '0123456789ab', bytesMax: 1e6, report, onTaken: () => undefined })
  try {
    spool.append({ event_id: 'e1', timestamp: 5, json: '{"event_id":"e1"}', bytes: 17, isTimeFinal: false })
    // A symbolic link to itself can't be followed.
    rmSync(folder, { recursive: true })
    symlinkSync(folder, folder)
    jest.advanceTimersByTime(10_000)
    expect(reports).toEqual(['spool_failed'])
  } finally {
    spool.close()
    jest.useRealTimers()
    rmSync(folder)
  }
})

const disk = mkdtempSync(join(tmpdir(), 'sluice-disk-'))

afterAll(() => {
  rmSync(disk, { recursive: true })
})

testWithTmpfs('a correction of a time that the full disk cuts off damages no later event', async () => {
  mountTmpfs(disk, 'size=64k')
  try {
    const parts = {
      folder: disk,
      scope: '0123456789ab',
      bytesMax: 1e6,
      report: () => undefined,
      onTaken: () => undefined,
    }
    const event = (id: string, text = '') => {
      const json = JSON.stringify({ event_id: id, timestamp: 5, properties: { text } })
      return { event_id: id, timestamp: 5, json, bytes: json.length, isTimeFinal: true }
    }
    const spool = openSpool(parts)
    const file = spool.append(event('first'))
    const rest = join(disk, 'rest')
    expect(() => {
      for (;;) appendFileSync(rest, 'x'.repeat(1_024))
    }).toThrow('ENOSPC')
    expect(file && spool.replace(file, event('first', 'x'.repeat(10_000)), 5)).toBe(false)
    rmSync(rest)
    spool.append(event('second'))
    spool.close()
    const next = openSpool(parts)
    expect((await next.takeOrphan())?.events.map(({ event_id }) => event_id)).toEqual(['first', 'second'])
    next.close()
  } finally {
    unmount(disk)
  }
})

testWithTmpfs('a full disk costs no event', async () => {
  mountTmpfs(disk, 'size=64k')
  try {
    away()
    mkdirSync(join(disk, 'spool'))
    const sluice = open({ spool: join(disk, 'spool') })
    const receipts = Array.from({ length: 100 }, (_, n) => sluice.track('view', { n, text: 'x'.repeat(1_500) }))
    expect(codes()).toEqual(['spool_failed'])
    expect(errors[0]?.message).toMatch(/ENOSPC|part of a write/)
    back()
    expect(await sluice.flush()).toMatchObject({ sent: 100 })
    expect(await storedIds(100)).toEqual(idsOf(receipts))
    // There is room again: events are in the spool when track returns.
    await waitUntil(() => {
      const { event_id } = sluice.track('view')
      return readdirSync(join(disk, 'spool')).some((name) =>
        readFileSync(join(disk, 'spool', name), 'utf8').includes(event_id),
      )
    }, 'the spool is written again')
    await sluice.close()
  } finally {
    unmount(disk)
  }
})
