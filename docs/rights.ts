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

A key holds scopes; \`admin\` grants everything. It goes in \`Authorization: Bearer <key>\`, in \`?api_key=<key>\`, or, opened as
a session, in the cookie \`session\`: the first of these that is there decides. Without one, and with one that is unknown,
mistyped, expired or revoked, every operation answers 401; without the scope, 403.

A key that is **bound to sites** sees those alone. What belongs to others is answered as if it did not exist (404), in lists
it is left out, and writing to it is refused (403). A key that is not bound may name every site; one that does not exist is
404 to reads.

Each request counts against one of the key's three limits: ${number(defaultLimits.events)} events,
${number(defaultLimits.queries)} queries and ${number(defaultLimits.admin)} changes a minute, unless the key has its own.

${row(['Operation', 'Scope', 'Counts as', 'A bound key at another site'])}
${row(['---', '---', '---', '---'])}
${rows.join('\n')}

Opening a session also counts as a change of the key that it is opened with. Importing users takes \`admin\`, and no key with
\`allowed_origins\` imports. An export takes \`stats:read\` for events, sessions and statistics, \`cohorts:read\` for users and cohorts.

\`tests/rights/matrix.test.ts\` requests every operation with every scope, for the key's own, a foreign and an absent site or
object, with the key in the header, the query and the cookie, and without a key.
`
}

function scopeOf({ scope, alternativeScope }: Operation): string {
  if (scope === 'public') return 'anybody'
  if (scope === 'authenticated') return 'any key'
  return alternativeScope === undefined ? `\`${scope}\`` : `\`${scope}\` or \`${alternativeScope}\``
}

function costOf({ limit, cost }: Operation): string {
  if (limit === undefined) return '–'
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
