import { existsSync } from 'node:fs'
import { openBlobStore } from '@sluice/blobs/open-blob-store'
import { s3CredentialsOf } from '@sluice/blobs/variables'
import { openStoreBackup } from '@sluice/event-store/backup'
import { openPostgres } from '@sluice/postgres/open'
import type { Config } from '@sluice/runtime/config'
import { settledOrAfter } from '@sluice/runtime/deadline'
import { folderOf } from '@sluice/runtime/folder-of'
import type { variables } from './config.ts'
import { openTarget } from './target.ts'

/**
 * The engines that a command has opened; `close` closes them in reverse order. Unless `blobsMustExist`, the folder of a
 * `file:` SLUICE_BLOBS_URL is created if it is missing. Throws an Error that says what to do.
 */
export async function openEngines(
  config: Config<typeof variables>,
  { searchPath, blobsMustExist }: { searchPath: string | undefined; blobsMustExist: boolean },
) {
  const credentials = s3CredentialsOf(config)
  const postgres = openPostgres(config.SLUICE_POSTGRES_URL, { queryTimeoutMs: 0 })
  const clickHouse = openStoreBackup(config.SLUICE_CLICKHOUSE_URL, credentials)
  const opened: { close(): Promise<void> }[] = [postgres, clickHouse]
  const close = async (): Promise<void> => {
    // A command that has failed prints the reason at once.
    for (const each of opened.reverse()) await settledOrAfter(each.close(), 1_000)
  }
  try {
    const blobsUrl = config.SLUICE_BLOBS_URL
    if (blobsMustExist && blobsUrl.startsWith('file:') && !existsSync(folderOf(blobsUrl))) {
      throw new Error(`SLUICE_BLOBS_URL: there is no folder ${folderOf(blobsUrl)}: name that of the services.`)
    }
    const blobs = await openBlobStore(blobsUrl, credentials && { credentials })
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
