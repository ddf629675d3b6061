import { openBlobStore } from '@sluice/blobs/open-blob-store'
import { s3CredentialsOf } from '@sluice/blobs/variables'
import { openStoreBackup } from '@sluice/event-store/backup'
import { openPostgres } from '@sluice/postgres/open'
import type { Config } from '@sluice/runtime/config'
import type { variables } from './config.ts'
import { openTarget } from './target.ts'

/** The engines that a command has opened; `close` closes them in reverse order. */
export async function openEngines(config: Config<typeof variables>, searchPath: string | undefined) {
  const credentials = s3CredentialsOf(config)
  const postgres = openPostgres(config.SLUICE_POSTGRES_URL, { queryTimeoutMs: 0 })
  const clickHouse = openStoreBackup(config.SLUICE_CLICKHOUSE_URL, credentials)
  const opened: { close(): Promise<void> }[] = [postgres, clickHouse]
  const close = async (): Promise<void> => {
    for (const each of opened.reverse()) await each.close()
  }
  try {
    const blobs = await openBlobStore(config.SLUICE_BLOBS_URL, credentials && { credentials })
    opened.push(blobs)
    return {
      engines: {
        postgres,
        programs: { url: config.SLUICE_POSTGRES_URL, searchPath },
        clickHouse,
        logUrl: config.SLUICE_LOG_URL,
        blobs,
      },
      open: async (url: string, name: string, { mustExist }: { mustExist: boolean }) => {
        const blobsUrl = config.SLUICE_BLOBS_URL
        const store = await openTarget(url, { name, blobsUrl, credentials, mustExist })
        opened.push(store)
        return { url, store }
      },
      close,
    }
  } catch (error) {
    await close()
    throw error
  }
}
