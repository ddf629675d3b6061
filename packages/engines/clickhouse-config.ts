import { hash } from 'node:crypto'
import { availableParallelism } from 'node:os'

/** The users of the embedded server: one for everything, one that only reads. */
export type ClickHouseUser = 'sluice' | 'sluice_reader'

export interface ClickHouseConfig {
  /** Absolute. */
  dataDir: string
  logFile: string
  usersFile: string
  httpPort: number
  /** Folder of the disk `backups`, absolute; undefined: there is none, and no right to make backups. */
  backupsDir?: string | undefined
}

/**
 * Statements that turn the library into a server: the first one listens, the second never ends.
 * They run as `default`, the only user that the embedded library can log in as, without a password.
 */
export const serverStatements =
  'SYSTEM START LISTEN HTTP; ' +
  'SELECT sleepEachRow(3) FROM system.numbers SETTINGS max_block_size = 1, function_sleep_max_microseconds_per_block = 0 FORMAT Null'

/**
 * config.xml for a small machine. It configures no system log tables, which are off by default. Two loggers are silent,
 * because they write statements that fail or are cancelled with their values, and errors that quote values: these
 * outlive an erasure. The client gets the same errors.
 */
export function renderConfig({ dataDir, logFile, usersFile, httpPort, backupsDir }: ClickHouseConfig): string {
  // Threads of merges and mutations: one per core, between 2 and 16 (a server's default).
  const mergeThreads = Math.min(Math.max(availableParallelism(), 2), 16)
  return `<clickhouse>
  <path>${escapeXml(dataDir)}/</path>
  <users_config>${escapeXml(usersFile)}</users_config>
  <listen_host>127.0.0.1</listen_host>
  <http_port>${httpPort}</http_port>
  <timezone>UTC</timezone>
  <log-level>warning</log-level>
  <logger><log>${escapeXml(logFile)}</log><size>10M</size><count>1</count><console>false</console><levels>
    <logger><name>executeQuery</name><level>none</level></logger>
    <logger><name>DynamicQueryHandler</name><level>none</level></logger>
  </levels></logger>
  <send_crash_reports><enabled>false</enabled></send_crash_reports>
  <max_server_memory_usage_to_ram_ratio>0.5</max_server_memory_usage_to_ram_ratio>
  <mark_cache_size>268435456</mark_cache_size>
  <primary_index_cache_size>268435456</primary_index_cache_size>
  <index_mark_cache_size>67108864</index_mark_cache_size>
  <background_pool_size>${mergeThreads}</background_pool_size>
  <max_concurrent_queries>100</max_concurrent_queries>${backupsDir === undefined ? '' : renderBackupDisk(backupsDir)}
</clickhouse>
`
}

/** The configuration that docs/backup.md asks operators to make. */
function renderBackupDisk(folder: string): string {
  return `
  <storage_configuration><disks>
    <backups><type>local</type><path>${escapeXml(folder)}/</path></backups>
  </disks></storage_configuration>
  <backups><allowed_disk>backups</allowed_disk></backups>`
}

/**
 * users.xml. Any web page can make a browser post to our port as `default`, which has no password. This user may
 * therefore only start the server and have one session: that of `serverStatements`, which never ends, so that every
 * log-in over HTTP is refused (tried: a quota is not enough, `SELECT` without a table isn't counted).
 *
 * `sluice` owns all databases but can't reach files or web addresses, stop the listener, or shut down: SYSTEM
 * SHUTDOWN signals the whole process group. `sluice_reader` reads the databases sluice, sluice_* and test_*, and how
 * much memory the server has; readonly = 2 permits it to set limits, and external tables and table functions like
 * numbers() need the right to create temporary tables.
 */
export function renderUsers(
  passwords: Record<ClickHouseUser, string>,
  { mayBackUp = false }: { mayBackUp?: boolean } = {},
): string {
  return `<clickhouse>
  <profiles>
    <default/>
    <starter>
      <max_sessions_for_user>1</max_sessions_for_user>
      <constraints><max_sessions_for_user><const/></max_sessions_for_user></constraints>
    </starter>
    <reader>
      <readonly>2</readonly>
      <cancel_http_readonly_queries_on_client_close>1</cancel_http_readonly_queries_on_client_close>
    </reader>
  </profiles>
  <quotas><default/></quotas>
  <users>
    <default>
      <no_password/>
${renderAccess('starter', ['GRANT SYSTEM LISTEN ON *.*', 'GRANT SELECT ON system.numbers'])}
    </default>
    <sluice>
      <password_sha256_hex>${sha256(passwords.sluice)}</password_sha256_hex>
${renderAccess('default', [
  'GRANT SHOW, SELECT, INSERT, ALTER, CREATE, DROP, UNDROP TABLE, TRUNCATE, OPTIMIZE, KILL QUERY, SYSTEM, dictGet, INTROSPECTION, REMOTE, CLUSTER ON *.*',
  'GRANT TABLE ENGINE ON *',
  'REVOKE SYSTEM SHUTDOWN, SYSTEM LISTEN ON *.*',
  ...(mayBackUp ? ['GRANT BACKUP, CHECK, S3 ON *.*'] : []),
])}
    </sluice>
    <sluice_reader>
      <password_sha256_hex>${sha256(passwords.sluice_reader)}</password_sha256_hex>
${renderAccess('reader', [
  'GRANT SHOW, SELECT ON sluice.*',
  'GRANT SHOW, SELECT ON sluice_*.*',
  'GRANT SHOW, SELECT ON test_*.*',
  'GRANT SELECT ON system.server_settings',
  'GRANT CREATE TEMPORARY TABLE ON *.*',
  'GRANT TABLE ENGINE ON Memory',
])}
    </sluice_reader>
  </users>
</clickhouse>
`
}

function renderAccess(profile: string, grants: readonly string[]): string {
  return `      <networks><ip>127.0.0.1</ip></networks>
      <profile>${profile}</profile>
      <quota>default</quota>
      <grants>${grants.map((grant) => `<query>${grant}</query>`).join('')}</grants>`
}

function sha256(text: string): string {
  return hash('sha256', text)
}

function escapeXml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}
