import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { createServer, request as send } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { type EmbeddedClickHouse, startClickHouse } from '@sluice/engines/clickhouse'
import { openStoreBackup } from '@sluice/event-store/backup'
import { migrateClickHouse } from '@sluice/event-store/migrate'

let folder: string
let clickHouse: EmbeddedClickHouse

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-store-backup-'))
  const disk = join(folder, 'disk')
  await mkdir(disk)
  clickHouse = await startClickHouse({ dir: join(folder, 'clickhouse'), backupsDir: disk })
  await migrateClickHouse(clickHouse.url)
})

afterAll(async () => {
  await clickHouse.stop()
  await rm(folder, { recursive: true })
})

/** A proxy in front of ClickHouse that cuts the connections of the first `count` queries for the state of a backup. */
async function cuttingProxy(count: number) {
  const target = new URL(clickHouse.url)
  let left = count
  const server = createServer((request, response) => {
    void buffer(request).then((body) => {
      if (left > 0 && body.includes('system.backups')) {
        left--
        request.socket.destroy()
        return
      }
      const onward = send(new URL(request.url ?? '/', target.origin), {
        method: request.method,
        headers: request.headers,
      })
      onward.once('response', (answer) => {
        response.writeHead(answer.statusCode ?? 502, answer.headers)
        answer.pipe(response)
      })
      onward.end(body)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = new URL(target)
  url.port = String((server.address() as AddressInfo).port)
  return {
    url: url.href,
    left: () => left,
    close: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

test('a backup is finished although the connection breaks while ClickHouse writes it', async () => {
  const proxy = await cuttingProxy(3)
  const store = openStoreBackup(proxy.url)
  try {
    const place = { kind: 'disk', disk: 'backups', name: 'bak_cut' } as const
    const pieces = await store.backUp(place)
    expect(pieces).toStrictEqual([{ place, bytes: expect.any(Number) }])
    expect(pieces[0]?.bytes).toBeGreaterThan(0)
    expect(proxy.left()).toBe(0)
  } finally {
    await store.close()
    await proxy.close()
  }
})

test('what ClickHouse refuses is not tried again', async () => {
  const store = openStoreBackup(clickHouse.url)
  try {
    await expect(store.backUp({ kind: 'disk', disk: 'unknown', name: 'bak_a' })).rejects.toMatchObject({
      message: expect.stringContaining('not allowed for backups') as unknown,
    })
  } finally {
    await store.close()
  }
})
