import { startClickHouse } from '@sluice/engines/clickhouse'
import { startPostgres } from '@sluice/engines/postgres'
import { folderOf } from '@sluice/runtime/folder-of'
import type { Logger } from '@sluice/runtime/logger'
import type { Component } from '@sluice/runtime/supervisor'

/** The URLs of the engines, embedded or not. */
export interface EngineUrls {
  log: string
  clickHouse: string
  /** URL of a user that may only read; the same URL where ClickHouse is not embedded. */
  clickHouseReader: string
  postgres: string
  isPostgresEmbedded: boolean
  redis: string
  blobs: string
  /** The embedded engines, which are stopped last. */
  components: readonly Component[]
}

export interface EngineConfig {
  SLUICE_DATA_DIR: string
  SLUICE_LOG_URL: string | undefined
  SLUICE_CLICKHOUSE_URL: string | undefined
  SLUICE_POSTGRES_URL: string | undefined
  SLUICE_REDIS_URL: string | undefined
  SLUICE_BLOBS_URL: string | undefined
  SLUICE_S3_ACCESS_KEY_ID: string | undefined
  SLUICE_S3_SECRET_ACCESS_KEY: string | undefined
}

/** Starts the embedded engines in parallel and returns the URLs of all engines. Throws when a data folder is in use. */
export async function startEngines(config: EngineConfig, logger: Logger): Promise<EngineUrls> {
  const clickHouseUrl = config.SLUICE_CLICKHOUSE_URL ?? `file:${config.SLUICE_DATA_DIR}/clickhouse`
  const postgresUrl = config.SLUICE_POSTGRES_URL ?? `file:${config.SLUICE_DATA_DIR}/postgres`
  const [clickHouse, postgres] = await Promise.all([
    isEmbedded(clickHouseUrl) ? startClickHouse({ dir: folderOf(clickHouseUrl), log: logger }) : undefined,
    isEmbedded(postgresUrl) ? startPostgres({ dir: folderOf(postgresUrl), log: logger }) : undefined,
  ])
  const components: Component[] = []
  if (clickHouse) components.push({ name: 'embedded clickhouse', stop: () => clickHouse.stop() })
  if (postgres) components.push({ name: 'embedded postgres', stop: () => postgres.stop() })
  return {
    log: config.SLUICE_LOG_URL ?? `file:${config.SLUICE_DATA_DIR}/log`,
    clickHouse: clickHouse?.url ?? clickHouseUrl,
    clickHouseReader: clickHouse?.readerUrl ?? clickHouseUrl,
    postgres: postgres?.url ?? postgresUrl,
    isPostgresEmbedded: postgres !== undefined,
    redis: config.SLUICE_REDIS_URL ?? 'memory:',
    blobs: config.SLUICE_BLOBS_URL ?? `file:${config.SLUICE_DATA_DIR}/blobs`,
    components,
  }
}

function isEmbedded(url: string): boolean {
  return url.startsWith('file:')
}
