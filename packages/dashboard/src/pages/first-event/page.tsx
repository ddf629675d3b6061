import { useEffect, useRef, useState } from 'preact/hooks'
import type { StoredEvent } from '@sluice/contracts/stored-event'
import { allSitesQuery } from '../../api/all-sites-query.ts'
import { serverNow } from '../../api/client.ts'
import { useApi, useInvalidate, useOperationMutation } from '../../api/hooks.ts'
import type { Data } from '../../api/wire.ts'
import { formatNumber } from '../../format/numbers.ts'
import { messages } from '../../messages/en.ts'
import { moveClock } from '../../state/clock.ts'
import { useView } from '../../state/hooks.ts'
import { sitePath } from '../../state/route.ts'
import { useMay, useSession, useSite } from '../../state/session.tsx'
import { announce } from '../../ui/announce.tsx'
import { Button } from '../../ui/button.tsx'
import { CodeBlock } from '../../ui/copy.tsx'
import { Problem } from '../../ui/field.tsx'
import { EmptyState, ErrorPanel, PageTitle } from '../../ui/states.tsx'
import { EventCard } from './event-card.tsx'
import { newKeys } from './key.ts'
import { texts } from './messages.ts'
import { SnippetTabs } from './snippet-tabs.tsx'

/** A site without events: snippets on one side, the first event as it arrives on the other. */
export default function FirstEvent({ onDone }: { onDone: () => void }) {
  const { site_id: siteId, first_event_at: firstAt } = useSite()
  const { collect_url: origin } = useSession()
  const mayMakeKeys = useMay('admin')
  const maySend = useMay('events:write')
  const [key, setKey] = useState(newKeys.get(siteId))
  const [arrived, setArrived] = useState<Arrival>()
  useEffect(() => {
    // A user who can't send events has nothing to wait for here.
    if (!maySend && firstAt !== null) onDone()
  }, [maySend, firstAt])
  if (!maySend && arrived === undefined) {
    return <EmptyState isPage icon="radio" title={texts.nothingYet} why={texts.nothingWhy} />
  }
  return (
    <>
      <PageTitle title={texts.sendTitle} sentence={texts.sendSentence(siteId)} />
      <div class="first-event">
        <section class="stack">
          <SnippetTabs siteId={siteId} apiKey={key} />
          {key !== undefined ? (
            <p class="muted small">{texts.later}</p>
          ) : mayMakeKeys ? (
            <MakeKey
              siteId={siteId}
              onMade={(made) => {
                newKeys.set(siteId, made)
                setKey(made)
              }}
            />
          ) : (
            <p class="muted small">{texts.noRight}</p>
          )}
        </section>
        <section class="arrival" aria-label={texts.waiting}>
          {arrived === undefined ? (
            <Waiting siteId={siteId} origin={origin} apiKey={key} onArrival={setArrived} onPast={onDone} />
          ) : (
            <Arrived {...arrived} onDone={onDone} />
          )}
        </section>
      </div>
    </>
  )
}

function MakeKey({ siteId, onMade }: { siteId: string; onMade: (key: string) => void }) {
  const { environment } = useSession()
  const make = useOperationMutation('createKey', ['listKeys'])
  return (
    <div class="stack-small">
      <p class="muted small">{texts.noKey}</p>
      <div>
        <Button
          icon="key-round"
          isBusy={make.isBusy}
          onClick={() => {
            const name = texts.keyName(siteId)
            make.start({ body: { name, scopes: ['events:write'], environment, site_ids: [siteId] } }, ({ key }) =>
              onMade(key),
            )
          }}
        >
          {texts.makeKey}
        </Button>
      </div>
      <ErrorPanel error={make.error} />
    </div>
  )
}

interface Arrival {
  event: StoredEvent
  /** Time from the event's receipt until this page knew of it, ms. */
  delayMs: number
}

const pollMs = 1_000
/** Then the usual causes are listed. */
const slowSeconds = 30

/** Sites whose last events are read often: the list reads the events of every site. */
const fewSitesMax = 50

const otherSitesMs = (sites: Data<'listSites'> | undefined): number =>
  sites !== undefined && sites.total <= fewSitesMax ? 3_000 : slowSeconds * 1_000

interface WaitingProps {
  siteId: string
  origin: string
  apiKey: string | undefined
  onArrival: (arrival: Arrival) => void
  /** The site has events, none of them of the last 24 hours, which are all that is listed live. */
  onPast: () => void
}

function Waiting({ siteId, origin, apiKey, onArrival, onPast }: WaitingProps) {
  const { first_event_at: firstAt } = useSite()
  const since = useRef(serverNow())
  const [seconds, setSeconds] = useState(0)
  const live = useApi('live', { query: { site_id: siteId, environment: 'all' } }, { refetchMs: pollMs, staleMs: 0 })
  const sites = useApi('listSites', allSitesQuery, { refetchMs: otherSitesMs })
  const [first] = live.data?.last_events ?? []
  useEffect(() => {
    if (first === undefined) return
    announce(texts.arrived)
    onArrival({ event: first, delayMs: Math.max(0, serverNow() - first.received_at) })
  }, [first?.event_id])
  const isPast = firstAt !== null && live.data !== undefined && first === undefined
  useEffect(() => {
    if (isPast) onPast()
  }, [isPast])
  useEffect(() => {
    const timer = setInterval(() => setSeconds(Math.floor((serverNow() - since.current) / 1000)), 250)
    return () => clearInterval(timer)
  }, [])
  const other = sites.data?.sites.find(
    (site) => site.site_id !== siteId && site.last_event_at !== null && site.last_event_at > since.current,
  )
  return (
    <div class="stack">
      <div class="row">
        <span class="pulse" aria-hidden="true" />
        <h2>{texts.waiting}</h2>
        <span class="muted">{texts.elapsed(seconds)}</span>
      </div>
      <ErrorPanel error={live.error} onRetry={live.retry} />
      {apiKey === undefined ? null : <SendHere siteId={siteId} origin={origin} apiKey={apiKey} />}
      {other === undefined ? null : (
        <p class="notice">
          <span>
            {texts.otherSite(other.site_id)} <a href={sitePath(other.site_id)}>{texts.openSite(other.site_id)}</a>
          </span>
        </p>
      )}
      {seconds < slowSeconds ? null : <Causes siteId={siteId} origin={origin} />}
    </div>
  )
}

function SendHere({ siteId, origin, apiKey }: Pick<WaitingProps, 'siteId' | 'origin'> & { apiKey: string }) {
  const [error, setError] = useState<string>()
  const [isBusy, setBusy] = useState(false)
  const send = async () => {
    setBusy(true)
    setError(undefined)
    try {
      const event = {
        site_id: siteId,
        event_type: 'page_view',
        url: location.origin,
        session_id: 'first-event',
        properties: { sent_by: 'dashboard', first: true },
      }
      const response = await fetch(`${origin}/collect?api_key=${apiKey}`, {
        method: 'POST',
        body: JSON.stringify(event),
        credentials: 'omit',
      })
      if (!response.ok) setError(((await response.json()) as { error?: string }).error ?? messages.errors.unknown)
    } catch {
      setError(messages.errors.unreachable)
    }
    setBusy(false)
  }
  return (
    <div class="stack-small">
      <div>
        <Button icon="send" isBusy={isBusy} onClick={() => void send()}>
          {texts.sendHere}
        </Button>
      </div>
      <Problem text={error} />
    </div>
  )
}

function Causes({ siteId, origin }: { siteId: string; origin: string }) {
  const { causes } = texts
  return (
    <div class="stack-small causes">
      <p>{texts.slow}</p>
      <ol>
        <li>
          {causes.address}
          <CodeBlock label={texts.checkAddress} code={`curl -i '${origin}/healthz'`} />
        </li>
        <li>{causes.unauthorized}</li>
        <li>{causes.forbidden}</li>
        <li>
          {causes.site}
          <CodeBlock label={texts.checkSite} code={`"site_id": ${JSON.stringify(siteId)}`} />
        </li>
      </ol>
    </div>
  )
}

function Arrived({ event, delayMs, onDone }: Arrival & { onDone: () => void }) {
  const { hrefOf, env } = useView()
  const session = useSession()
  const invalidate = useInvalidate()
  const shown = env ?? session.environment
  const goOn = () => {
    void invalidate('getSite')
    // The range ends at the clock, which is older than the event.
    moveClock()
    onDone()
  }
  const isElsewhere = shown !== 'all' && event.environment !== shown
  return (
    <div class="stack">
      <div>
        <h2>{texts.arrived}</h2>
        <p class="muted small">{texts.visible(formatNumber(Math.round(delayMs / 100) / 10))}</p>
      </div>
      <EventCard event={event} />
      <div class="row">
        {isElsewhere ? (
          <>
            <span>{texts.environment(event.environment)}</span>
            <a class="button primary" href={hrefOf({ env: event.environment })} onClick={goOn}>
              {texts.showEnvironment(event.environment)}
            </a>
          </>
        ) : (
          <Button kind="primary" onClick={goOn}>
            {texts.openOverview}
          </Button>
        )}
      </div>
    </div>
  )
}
