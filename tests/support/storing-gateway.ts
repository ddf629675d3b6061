import { afterAll, beforeAll } from '@jest/globals'
import { startGateway, type TestGateway } from './gateway.ts'
import { createTestStores, type RunningWriter, runWriter, type TestStores } from './writer.ts'

export interface StoringGateway {
  gateway: TestGateway
  stores: TestStores
}

/**
 * One gateway for the tests of a file, and a writer that stores its events in ClickHouse. Merges are off, because they
 * could hide rows that were stored twice. Both are available when the tests run.
 */
export function useStoringGateway(): StoringGateway {
  const rig = {} as StoringGateway
  let writer: RunningWriter

  beforeAll(async () => {
    rig.stores = await createTestStores()
    await rig.stores.clickHouse.command('SYSTEM STOP MERGES events')
    writer = runWriter(rig.stores)
    rig.gateway = await startGateway({ log: rig.stores.log })
  })

  afterAll(async () => {
    await writer.stop()
    await rig.gateway.stop()
    await rig.stores.drop()
  })

  return rig
}
