import { execFile } from 'node:child_process'
import { mkdtemp, rename, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from '@jest/globals'
import { waitUntil } from '@sluice/runtime/wait-until'
import { client } from '../support/client.ts'
import { type ServiceProcess, startService } from '../support/service-process.ts'
import { expectWebLogAnswers, sendWebLog } from './web-log.ts'

test('standalone is backed up by a copy of its data folder while it is stopped', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-copied-'))
  const [data, copy] = [join(folder, 'data'), join(folder, 'copy')]
  let sluice: ServiceProcess = await startService('standalone', { SLUICE_DATA_DIR: data })
  try {
    const newKey = () => /svc_prod_\w{34}/.exec(sluice.output())?.[0] ?? ''
    let key = newKey()
    const asClient = () => client({ gatewayUrl: sluice.url, queryUrl: sluice.url, key })
    await sendWebLog(asClient())
    await expectWebLogAnswers(asClient())
    await sluice.stop()
    await promisify(execFile)('cp', ['-a', data, copy])
    await rm(data, { recursive: true })

    sluice = await startService('standalone', { SLUICE_DATA_DIR: copy })
    await expectWebLogAnswers(asClient())
    await sluice.stop()

    // Only events that are not stored yet are lost with the log, and answers become complete again.
    await rm(join(copy, 'log'), { recursive: true })
    sluice = await startService('standalone', { SLUICE_DATA_DIR: copy })
    await expectWebLogAnswers(asClient())
    const startedAt = Date.now()
    await waitUntil(async () => {
      const { data } = await asClient().stats({ site_id: 'web-log', metric: 'event_count' })
      return data.complete_until > startedAt
    }, 'answers are complete')
    await sluice.stop()

    // An empty Postgres knows no file of an export, so the worker would delete all of them.
    await rm(join(copy, 'postgres'), { recursive: true })
    await expect(startService('standalone', { SLUICE_DATA_DIR: copy })).rejects.toThrow(
      /ClickHouse holds events\..*docs\/backup\.md#standalone says what to do\./,
    )

    // Whoever has no copy keeps the events, with the Postgres of a new installation.
    const other = join(folder, 'other')
    sluice = await startService('standalone', { SLUICE_DATA_DIR: other })
    key = newKey()
    await sluice.stop()
    await rm(join(copy, 'postgres'), { recursive: true })
    await rename(join(other, 'postgres'), join(copy, 'postgres'))
    sluice = await startService('standalone', { SLUICE_DATA_DIR: copy })
    await expectWebLogAnswers(asClient())
  } finally {
    await sluice.stop()
    await rm(folder, { recursive: true, force: true })
  }
})
