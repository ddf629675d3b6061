import { urlVariable } from '@sluice/runtime/variables'
import { parseClickHouseUrl } from './client.ts'

const description =
  'ClickHouse: http(s)://user:password@host:8123/database[?ca=<PEM file>]. With ?cluster=<name>, the events are on the shards ' +
  'of that cluster (scale-out.md).'

/** SLUICE_CLICKHOUSE_URL of a service that runs in its own process. */
export const clickHouseUrl = urlVariable({ schemes: ['http', 'https'], description, checkUrl: requireUsableUrl })

/** SLUICE_CLICKHOUSE_URL when the embedded ClickHouse in the data folder is the default. */
export const clickHouseUrlOrEmbedded = {
  ...urlVariable({
    schemes: ['http', 'https', 'file'],
    description: `${description} Default: file:<SLUICE_DATA_DIR>/clickhouse.`,
    checkUrl: requireUsableUrl,
  }),
  optional: true as const,
}

function requireUsableUrl({ pathname, href }: URL): void {
  if (!/^\/\w*$/.test(pathname)) {
    throw new TypeError('must end in a database name of letters, digits and underscores')
  }
  parseClickHouseUrl(href)
}
