import { missingTopics } from '@sluice/event-log/kafka/ensure-topics'
import { planClickHouse } from '@sluice/event-store/migrate'
import { planPostgres } from '@sluice/postgres/migrate'
import type { Postgres } from '@sluice/postgres/open'

interface Planned {
  name: string
  statements: readonly { sql: string; bytes: number }[]
}

/** The steps that `migrate` would take, for a terminal; nothing is changed. */
export async function planText({
  postgres,
  clickHouseUrl,
  logUrl,
}: {
  postgres: Postgres
  clickHouseUrl: string
  logUrl: string
}): Promise<string> {
  const topics = logUrl.startsWith('kafka:') ? await missingTopics(logUrl) : []
  const clickHouse = await planClickHouse(clickHouseUrl)
  return [
    ...section('Postgres', await planPostgres(postgres)),
    ...clickHouse.flatMap(({ server, migrations }) =>
      section(server === undefined ? 'ClickHouse' : `ClickHouse ${server}`, migrations),
    ),
    topics.length === 0 ? 'Topics: up to date' : `Topics: would add ${topics.join(', ')}`,
    'Nothing was changed.',
  ].join('\n')
}

function section(engine: string, planned: readonly Planned[]): string[] {
  if (planned.length === 0) return [`${engine}: up to date`]
  const bytes = planned.flatMap(({ statements }) => statements).reduce((sum, statement) => sum + statement.bytes, 0)
  return [
    `${engine}: would add ${planned.map(({ name }) => name).join(', ')}; reads or rewrites at most ${bytes} bytes`,
    ...planned.flatMap(({ name, statements }) => [
      `  ${name}`,
      ...statements.flatMap(({ sql, bytes: own }) => [
        ...(own > 0 ? [`    -- reads or rewrites at most ${own} bytes`] : []),
        ...`${sql};`.split('\n').map((line) => `    ${line}`),
      ]),
    ]),
  ]
}
