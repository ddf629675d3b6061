import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { type LeaseKey, LeaseLostError, leaseMs, type LeaseTable } from '../lease-table.ts'

/** A table of jobs under test. */
export interface TableUnderTest {
  table: LeaseTable<unknown>
  /** Adds a job that is due at `dueAt` and waits for no other one; returns its id. */
  add: (dueAt: number) => Promise<string>
  /** Ends a job permanently, even if a worker has a lease on it. */
  cancel: (id: string, now: number) => Promise<unknown>
  /** The status of a cancelled job and the result of a renewal. Without it, the status is `cancelled`. */
  cancelled?: { status: string | undefined; renewal: 'cancelled' | 'lost' }
  /** Completes a job, where jobs end otherwise than by a failure. */
  complete?: (lease: LeaseKey, now: number) => Promise<void>
  /** The status of a failed job, and how many ms later it is due again. Without it, the job is `failed` permanently. */
  failed?: { status: string; dueAfterMs: number }
  status: (id: string) => Promise<string | undefined>
  /** Removes all jobs. */
  clear: () => Promise<unknown>
  close: () => Promise<unknown>
}

/** A time far from that of the machine. A table that read its own clock would take no job, or all of them. */
const noon = Date.UTC(2042, 5, 1, 12)
const progress = { isProgress: true }
const noProgress = { isProgress: false }

/** The requirements of every table of jobs. The jobs of a table may recur without end. */
export function describeLeaseTable(
  name: string,
  open: () => Promise<TableUnderTest>,
  { isRecurring = false } = {},
): void {
  describe(`leases on ${name}`, () => {
    let opened: TableUnderTest
    let table: LeaseTable<unknown>

    beforeAll(async () => {
      opened = await open()
      ;({ table } = opened)
    })
    afterAll(async () => {
      await opened.close()
    })
    beforeEach(async () => {
      await opened.clear()
    })

    const takeOne = async (now: number): Promise<LeaseKey> => {
      const [taken] = await table.take(now, 1)
      if (!taken) throw new Error('nothing was taken')
      return taken
    }
    const ids = async (now: number, max = 10) => (await table.take(now, max)).map(({ id }) => id)

    test('jobs are taken from when they are due, the longest due first, and no more than asked for', async () => {
      const third = await opened.add(noon + 2)
      const first = await opened.add(noon)
      const second = await opened.add(noon + 1)
      expect(await ids(noon - 1)).toStrictEqual([])
      expect(await ids(noon + 2, 2)).toStrictEqual(expect.arrayContaining([first, second]))
      expect(await ids(noon + 2)).toStrictEqual([third])
    })

    test('workers that take at the same moment take different jobs, each once', async () => {
      const added = await Promise.all(Array.from({ length: 40 }, (_, index) => opened.add(noon + index)))
      const taken = await Promise.all(Array.from({ length: 8 }, () => ids(noon + 40, 6)))
      taken.push(await ids(noon + 40, added.length))
      expect(taken.flat().sort()).toStrictEqual(added.sort())
      expect(Math.max(...taken.slice(0, 8).map(({ length }) => length))).toBeLessThanOrEqual(6)
    })

    test('a lease keeps the job from others for 30 s, and each renewal for another 30', async () => {
      await opened.add(noon)
      const lease = await takeOne(noon)
      expect(await ids(noon + leaseMs - 1)).toStrictEqual([])
      expect(await table.renew(lease, noon + 10_000)).toBe('held')
      expect(await ids(noon + leaseMs + 9_999)).toStrictEqual([])
      const next = await takeOne(noon + leaseMs + 10_000)
      expect(next.id).toBe(lease.id)
      expect(next.lease).toBeGreaterThan(lease.lease)
    })

    test('whoever lost the lease can renew, record and release nothing', async () => {
      await opened.add(noon)
      const lost = await takeOne(noon)
      const held = await takeOne(noon + leaseMs)
      expect(await table.renew(lost, noon + leaseMs)).toBe('lost')
      await expect(table.release(lost, noon, progress)).rejects.toThrow(LeaseLostError)
      await expect(table.countFailure(lost, { isCausedByJob: false })).rejects.toThrow(LeaseLostError)
      await expect(table.fail(lost, 'text', noon)).rejects.toThrow(LeaseLostError)
      expect(await table.renew(held, noon + leaseMs)).toBe('held')
      expect(await ids(noon + leaseMs + 1)).toStrictEqual([])
    })

    test('a lease that lapsed can be renewed as long as nobody has taken the job', async () => {
      await opened.add(noon)
      const lease = await takeOne(noon)
      expect(await table.renew(lease, noon + 2 * leaseMs)).toBe('held')
      expect(await ids(noon + 2 * leaseMs)).toStrictEqual([])
    })

    test('a released job is due when the release says, for others at once, and its lease is over', async () => {
      await opened.add(noon)
      const lease = await takeOne(noon)
      await table.release(lease, noon + 5_000, progress)
      await expect(table.release(lease, noon, progress)).rejects.toThrow(LeaseLostError)
      expect(await table.renew(lease, noon)).toBe('lost')
      expect(await ids(noon + 4_999)).toStrictEqual([])
      const next = await takeOne(noon + 5_000)
      await table.release(next, null, progress)
      expect(await ids(noon + 10 * leaseMs)).toStrictEqual([])
    })

    test('failures are counted by kind until a unit makes progress', async () => {
      await opened.add(noon)
      const first = await takeOne(noon)
      expect(await table.countFailure(first, { isCausedByJob: false })).toStrictEqual({ tries: 1, failures: 0 })
      await table.release(first, noon, noProgress)
      const second = await takeOne(noon)
      expect(await table.countFailure(second, { isCausedByJob: true })).toStrictEqual({ tries: 2, failures: 1 })
      await table.release(second, noon, progress)
      const third = await takeOne(noon)
      expect(await table.countFailure(third, { isCausedByJob: true })).toStrictEqual({ tries: 1, failures: 1 })
    })

    test('a lease that lapsed counts as a failure of the next one, a released one does not', async () => {
      await opened.add(noon)
      await takeOne(noon)
      const [afterLapse] = await table.take(noon + leaseMs, 1)
      expect(afterLapse?.failures).toBe(1)
      await table.release(afterLapse as LeaseKey, noon, noProgress)
      const [afterRelease] = await table.take(noon + leaseMs, 1)
      expect(afterRelease?.failures).toBe(1)
    })

    test('a failed job is never due again, or much later', async () => {
      const id = await opened.add(noon)
      const lease = await takeOne(noon)
      await table.fail(lease, 'The file is not there', noon)
      await table.release(lease, null, noProgress)
      const { status, dueAfterMs } = opened.failed ?? { status: 'failed', dueAfterMs: Infinity }
      expect(await opened.status(id)).toBe(status)
      expect(await ids(noon + Math.min(dueAfterMs - 1, 10 * leaseMs))).toStrictEqual([])
      if (dueAfterMs < Infinity) expect(await ids(noon + dueAfterMs)).toStrictEqual([id])
    })

    if (!isRecurring)
      test('a job that has ended stays so, also when its worker did not learn that and releases it for another attempt', async () => {
        const { complete } = opened
        const id = await opened.add(noon)
        const lease = await takeOne(noon)
        await (complete?.(lease, noon) ?? table.fail(lease, 'The file is not there', noon))
        const status = await opened.status(id)
        await table.countFailure(lease, { isCausedByJob: false })
        await table.release(lease, noon + 1_000, noProgress)
        expect(await ids(noon + 10 * leaseMs)).toStrictEqual([])
        expect(await opened.status(id)).toBe(status)
      })

    test('a cancelled job says so to the worker that has it, which can record nothing more', async () => {
      const id = await opened.add(noon)
      const lease = await takeOne(noon)
      await opened.cancel(id, noon)
      const { status, renewal } = opened.cancelled ?? { status: 'cancelled', renewal: 'cancelled' }
      expect(await table.renew(lease, noon)).toBe(renewal)
      await expect(table.release(lease, noon, progress)).rejects.toThrow(LeaseLostError)
      expect(await ids(noon + 10 * leaseMs)).toStrictEqual([])
      expect(await opened.status(id)).toBe(status)
    })

    test('jobs are counted by what they wait for, and take along since when they were due', async () => {
      expect(await table.count(noon)).toStrictEqual({ running: 0, waiting: 0, scheduled: 0, failing: 0 })
      await opened.add(noon)
      await opened.add(noon + 1_000)
      await opened.add(noon + 60_000)
      const [taken] = await table.take(noon + 2_000, 1)
      expect(taken?.dueAt).toBe(noon)
      const counts = await table.count(noon + 2_000)
      expect(counts).toStrictEqual({ running: 1, waiting: 1, scheduled: 1, failing: 0 })
      // The lease has lapsed.
      const lapsed = { running: 0, waiting: 2, scheduled: 1, failing: 0 }
      expect(await table.count(noon + 3_000 + leaseMs)).toStrictEqual(lapsed)
    })

    test('a job counts as failing after ten units without progress, whatever the reason, until one has made progress', async () => {
      await opened.add(noon)
      const lease = await takeOne(noon)
      for (let unit = 0; unit < 9; unit++) await table.countFailure(lease, { isCausedByJob: false })
      expect(await table.count(noon)).toMatchObject({ running: 1, failing: 0 })
      await table.countFailure(lease, { isCausedByJob: false })
      expect(await table.count(noon)).toMatchObject({ running: 1, failing: 1 })
      await table.release(lease, noon + 1_000, progress)
      expect(await table.count(noon)).toMatchObject({ scheduled: 1, failing: 0 })
    })

    test('the oldest due job is the oldest one that could be taken', async () => {
      expect(await table.oldestDue(noon)).toBeUndefined()
      await opened.add(noon)
      await opened.add(noon + 1_000)
      expect(await table.oldestDue(noon - 1)).toBeUndefined()
      expect(await table.oldestDue(noon + 5_000)).toBe(noon)
      await takeOne(noon + 5_000)
      expect(await table.oldestDue(noon + 5_000)).toBe(noon + 1_000)
      expect(await table.oldestDue(noon + 5_000 + leaseMs)).toBe(noon)
    })
  })
}
