import type { ClickHouse } from '@sluice/event-store/clickhouse/client'

/** Describes events of one or many sites, which ClickHouse generates, with the same result in every run. */
export interface Filling {
  /** One site of this name; several: `<name>-0` …, of which site n gets a share of 1/(n + 1) (Zipf). */
  site: string
  sites?: number
  events: number
  /** Unix ms: events lie in the `days` before it. */
  end: number
  days: number
}

/** Sessions have 5 events on average, 1 to 40. */
const eventsPerSession = 5
const sessionEventsMax = 40
/** Average number of sessions of a user. */
const sessionsPerUser = 6
const chunkSessions = 500_000

/**
 * Fills `events` with realistic events: sessions with pauses between 5 and 120 s, a daily rhythm, a few frequent pages
 * and countries among many rare ones (Zipf), a purchase in one of 40 sessions, anonymous visitors in half of them. The
 * inserts have no look-back like the writer's and store some 200,000 rows a second.
 */
export async function fillEvents(clickHouse: ClickHouse, filling: Filling): Promise<void> {
  const { site, sites = 1, events, end, days } = filling
  const sessions = Math.ceil(events / eventsPerSession)
  const insert = (from: number): Promise<void> =>
    clickHouse.command(insertSessions(sites), {
      params: {
        site,
        sites,
        from,
        count: Math.min(chunkSessions, sessions - from),
        end,
        days,
        users: Math.ceil(sessions / sessionsPerUser),
      },
      settings: { max_execution_time: 600 },
    })
  // One thread generates the rows of a statement, so two statements run at a time.
  let next = 0
  const lane = async (): Promise<void> => {
    while (next < sessions) {
      const from = next
      next += chunkSessions
      await insert(from)
    }
  }
  await Promise.all([lane(), lane()])
}

/** SQL of a pseudo-random number from 0 to 1 that depends on the session's number alone. */
const draw = (salt: number): string => `(cityHash64(session, ${salt}) % 1000000 / 1000000)`
const drawOfEvent = (salt: number): string => `(cityHash64(session, place, ${salt}) % 1000000 / 1000000)`
/** SQL of a Zipf-distributed integer below `count`: most are small. */
const zipf = (random: string, count: string): string => `toUInt64(floor(pow(${count}, ${random}))) - 1`

function insertSessions(sites: number): string {
  const siteId =
    sites === 1 ? '{site:String}' : `concat({site:String}, '-', toString(${zipf(draw(1), '{sites:UInt32}')}))`
  return `
INSERT INTO events (site_id, environment, event_type, timestamp, event_id, session_id, user_id, anonymous_id, url, referrer,
    country, device_type, properties, received_at)
SELECT
    ${siteId},
    'prod',
    multiIf(place = 0, 'page_view', place = length - 1 AND ${draw(2)} < 0.025, 'purchase', ${drawOfEvent(3)} < 0.7, 'page_view', 'click'),
    fromUnixTimestamp64Milli(started_ms + place * pause_ms + cityHash64(session, place, 4) % 5000, 'UTC') AS at,
    concat('fill-', toString(session), '-', toString(place)),
    concat('s-', toString(session)),
    if(user % 2 = 0, concat('u-', toString(user)), ''),
    if(user % 2 = 0, '', concat('a-', toString(user))),
    concat('https://shop.example.com/page/', toString(${zipf(drawOfEvent(5), '5000')})),
    if(place = 0, concat('https://ref-', toString(${zipf(draw(6), '200')}), '.example/'), ''),
    ['US', 'DE', 'FR', 'GB', 'IN', 'BR', 'JP', 'CA', 'AU', 'ES', 'IT', 'NL', 'SE', 'PL', 'CH', 'MX'][1 + ${zipf(draw(7), '16')}],
    ['desktop', 'mobile', 'tablet'][1 + ${zipf(draw(8), '3')}],
    map('plan', if(user % 10 = 0, 'pro', 'free'), 'price', toString(cityHash64(session, place, 9) % 100)),
    at
FROM
(
    SELECT
        {from:UInt64} + number AS session,
        toUInt64(floor({users:UInt64} * ${draw(10)})) AS user,
        least(${sessionEventsMax}, 1 + toUInt32(floor(-log(1.000001 - ${draw(11)}) * (${eventsPerSession} - 0.5)))) AS length,
        toUInt32(floor({days:UInt32} * ${draw(12)})) AS day,
        -- More at noon (UTC) than at night.
        86400000 * day + toInt64(86400000 * (${draw(13)} + 0.11 * sin(2 * pi() * ${draw(13)}))) AS offset_ms,
        {end:Int64} - 86400000 * toInt64({days:UInt32}) + offset_ms AS started_ms,
        5000 + toUInt32(115000 * ${draw(14)}) AS pause_ms,
        range(length) AS places
    FROM numbers({count:UInt64})
)
ARRAY JOIN places AS place
WHERE toUnixTimestamp64Milli(at) < {end:Int64}`
}
