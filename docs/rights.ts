import type { Operation, Rights } from '@sluice/api/operation'
import { operations } from '@sluice/api/operations'
import { defaultLimits } from '@sluice/contracts/rate-limits'

/** docs/rights.md: the rights of every operation, from the table that the services are made of. */
export function rightsPage(): string {
  const rows = (Object.values(operations) as Operation[]).map((operation) =>
    row([
      `\`${operation.method} ${operation.path.replace(/:(\w+)/g, '{$1}')}\``,
      scopeOf(operation),
      costOf(operation),
      operation.scope === 'public' ? '–' : boundKeyMeets(operation),
    ]),
  )
  return `<!-- Written by npm run docs. -->

# Who may call what

A key has scopes; the scope \`admin\` grants everything. A request contains the key in \`Authorization: Bearer <key>\` or in
\`?api_key=<key>\`, or a session that was opened with the key in the cookie \`session\`. Sluice uses the first of these that the
request contains. If it contains none, or one that is unknown, mistyped, expired or revoked, every operation answers 401. If the
key lacks the scope, the operation answers 403.

A key that is **bound to sites** can use only these sites. Reads of other sites and of their records are answered 404, as if they
did not exist. Lists leave them out. Writes to other sites are refused with 403. A key that is not bound may name every site. Reads
of a site that does not exist are answered 404.

Each request counts against one of the key's three limits: ${number(defaultLimits.events)} events,
${number(defaultLimits.queries)} queries and ${number(defaultLimits.admin)} changes a minute, unless the key has its own limits.

${row(['Operation', 'Scope', 'Counts as', 'A bound key at another site'])}
${row(['---', '---', '---', '---'])}
${rows.join('\n')}

The opening of a session counts as a change by the key that opens it. An import of users needs the scope \`admin\`. A key with
\`allowed_origins\` or \`events_per_minute_per_address\` can't be used for imports. An export of events, sessions or statistics
needs \`stats:read\`, an export of users or cohorts \`cohorts:read\`.

\`tests/rights/matrix.test.ts\` calls every operation with every scope, for a site or object of the key, for one of another site
and for one that does not exist, with the key in the header, the query and the cookie, and without a key.
`
}

function scopeOf({ scope, alternativeScope }: Operation): string {
  if (scope === 'public') return 'anybody'
  if (scope === 'authenticated') return 'any key'
  return alternativeScope === undefined ? `\`${scope}\`` : `\`${scope}\` or \`${alternativeScope}\``
}

function costOf({ limit, cost }: Operation): string {
  if (limit === undefined || cost === 0) return '–'
  const names = {
    events: ['1 event', 'its events'],
    queries: ['1 query', 'its queries'],
    admin: ['1 change', 'its changes'],
  }
  const [one = '', many = ''] = names[limit]
  return cost === 'body' ? many : one
}

function boundKeyMeets({ rights, limit }: Operation): string {
  const meets: Record<Rights['of'], string> = {
    none: '–',
    key: '403 unless bound to one site',
    list: 'left out',
    object: '404',
    site: limit === 'queries' ? '404' : '403',
  }
  if (rights.of !== 'site') return meets[rights.of]
  if (rights.in === 'events') return "the event's error"
  return rights.in === 'queries' ? "404 in the query's result" : meets.site
}

function row(cells: readonly string[]): string {
  return `| ${cells.join(' | ')} |`
}

function number(value: number): string {
  return value.toLocaleString('en')
}
