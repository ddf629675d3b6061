import { useState } from 'preact/hooks'
import {
  type CreateErasureBody,
  type ErasureResource,
  type ErasureSelector,
  erasureSelectors,
} from '@sluice/contracts/erasures'
import { call, serverNow } from '../../api/client.ts'
import { fieldErrors } from '../../api/field-errors.ts'
import { useApi, useCachedQuery, useFromAnswer, useOperationMutation } from '../../api/hooks.ts'
import { messages } from '../../messages/en.ts'
import { usePageParameter } from '../../state/hooks.ts'
import { boundsOf, isValidCustom } from '../../state/range.ts'
import { useSite } from '../../state/session.tsx'
import { Button } from '../../ui/button.tsx'
import { RadioGroup } from '../../ui/choice.tsx'
import { TextField } from '../../ui/field.tsx'
import { ConfirmDialog } from '../../ui/form-dialog.tsx'
import { listSource } from '../../ui/list-source.ts'
import { MoreMenu } from '../../ui/more-menu.tsx'
import { Num } from '../../ui/numbers.tsx'
import { ErrorPanel, SkeletonRows, Status } from '../../ui/states.tsx'
import { type Column, DataTable } from '../../ui/table.tsx'
import { At } from '../../ui/time.tsx'
import { texts } from './messages.ts'

/** Erases what a user, a session or an event has left, or what is older than a day; and shows how far that is. */
export function Erasures() {
  const site = useSite()
  const create = useOperationMutation('createErasure', ['getSite'])
  const [kind, setKind] = useState<ErasureSelector>('user_id')
  const [value, setValue] = useState('')
  const [isTried, setTried] = useState(false)
  const [isSure, setSure] = useState(false)
  // The interface has no list of erasures: the address keeps those that were requested here.
  const [ids = '', setIds] = usePageParameter('erasures')
  const errors = fieldErrors(create.error, [...erasureSelectors])
  const trimmed = value.trim()
  const isValid = kind === 'before' ? isValidCustom({ from: trimmed, to: trimmed }) : trimmed !== ''
  const problem = isTried && !isValid ? (kind === 'before' ? texts.missingDay : texts.missingId) : errors.forField(kind)
  const bodyOf = (): CreateErasureBody => {
    const moment = { now: serverNow(), zone: site.timezone, firstEventAt: site.first_event_at }
    return kind === 'before'
      ? { before: boundsOf({ from: trimmed, to: trimmed }, moment).startMs }
      : { [kind]: trimmed }
  }
  const erase = async () => {
    const { erasure_id: id } = await create.run({ params: { site_id: site.site_id }, body: bodyOf() })
    setSure(false)
    setTried(false)
    setValue('')
    setIds([id, ...ids.split(',').filter((each) => each !== '')].slice(0, 10).join(','), true)
  }
  return (
    <section class="stack" aria-labelledby="erase-title">
      <div class="stack-small">
        <h2 id="erase-title">{texts.erase}</h2>
        <p class="muted">{texts.eraseText}</p>
      </div>
      <form
        class="stack"
        noValidate
        onSubmit={(event) => {
          event.preventDefault()
          setTried(true)
          create.reset()
          if (isValid) setSure(true)
        }}
      >
        <RadioGroup
          isInline
          legend={texts.what}
          value={kind}
          options={erasureSelectors.map((each) => ({ value: each, label: texts.kinds[each] }))}
          onChange={(chosen) => {
            setKind(chosen)
            setValue('')
            setTried(false)
          }}
        />
        <TextField
          key={kind}
          label={texts.values[kind]}
          type={kind === 'before' ? 'date' : 'text'}
          value={value}
          onInput={setValue}
          autocomplete="off"
          spellcheck={false}
          error={problem}
        />
        <div>
          <Button kind="danger" type="submit">
            {texts.eraseButton}
          </Button>
        </div>
      </form>
      {ids === '' ? null : <ErasureList ids={ids.split(',')} />}
      {isSure ? (
        <ConfirmDialog
          title={texts.eraseTitle}
          submit={texts.eraseConfirm}
          isBusy={create.isBusy}
          error={create.error}
          onSubmit={erase}
          typed={texts.eraseWord}
          onClose={() => setSure(false)}
        >
          <p>
            <bdi>{texts.eraseWhat(texts.kinds[kind], trimmed)}</bdi>
          </p>
          <Affected body={bodyOf()} />
        </ConfirmDialog>
      ) : null}
    </section>
  )
}

/** The number of events that an erasure will delete; nothing for a single event, which no statistic finds by its id. */
function Affected({ body: { before, event_id: eventId, ...ids } }: { body: CreateErasureBody }) {
  const { site_id: siteId } = useSite()
  const filter = Object.entries(ids).map(([property, value]) => ({ property, operator: 'equals' as const, value }))
  const query = { site_id: siteId, metric: 'event_count', environment: 'all', start_date: 0 } as const
  const { data, error, isLoading, retry } = useApi(
    'stats',
    eventId === undefined
      ? { query: { ...query, ...(before === undefined ? { filter } : { end_date: before }) } }
      : null,
    { staleMs: 0, keepsPreviousData: false },
  )
  if (error !== undefined) return <ErrorPanel error={error} onRetry={retry} />
  if (isLoading) return <SkeletonRows rows={1} />
  if (data === undefined) return null
  const none = 'user_id' in ids ? texts.noneOfUser : before === undefined ? texts.noneWithId : texts.noneBefore
  return (
    <p class="notice" role="status">
      {data.value === 0 ? none : texts.willBeDeleted(data.value)}
    </p>
  )
}

const pollMs = 2_000

function ErasureList({ ids }: { ids: readonly string[] }) {
  const { site_id: siteId, timezone: zone } = useSite()
  const list = useCachedQuery(
    ['erasures', siteId, ids],
    (signal) =>
      Promise.all(ids.map((id) => call('getErasure', { params: { site_id: siteId, erasure_id: id } }, signal))),
    {
      refetchMs: (records) => (records?.every(({ status }) => status === 'completed') === true ? false : pollMs),
      staleMs: 0,
    },
  )
  const [latest] = ids
  const source = useFromAnswer(list, (records) =>
    latest === undefined
      ? undefined
      : listSource(texts.erasures, ['getErasure', { params: { site_id: siteId, erasure_id: latest } }], records, {
          fileParts: [siteId, 'erasures'],
          zone,
        }),
  )
  return (
    <div class="stack-small">
      <div class="row">
        <h3 class="grow">{texts.erasures}</h3>
        <MoreMenu source={source} />
      </div>
      <ErrorPanel error={list.error} onRetry={list.retry} />
      {list.isLoading ? <SkeletonRows rows={ids.length} /> : null}
      {list.data === undefined ? null : (
        <DataTable
          caption={texts.erasures}
          columns={columns}
          rows={list.data}
          rowKey={(each) => each.erasure_id}
          empty={messages.ui.noMatch}
        />
      )}
    </div>
  )
}

const columns: readonly Column<ErasureResource>[] = [
  { id: 'kind', header: texts.columns.kind, cell: (each) => texts.kinds[each.kind] },
  {
    id: 'status',
    header: texts.columns.status,
    cell: (each) => <Status kind={each.status === 'completed' ? 'good' : 'busy'}>{texts.statuses[each.status]}</Status>,
  },
  {
    id: 'count',
    header: texts.columns.count,
    align: 'end',
    cell: (each) =>
      each.count === null ? texts.notCounted : <Num value={each.count} name={`${each.erasure_id} count`} />,
  },
  { id: 'requested_at', header: texts.columns.requested, cell: (each) => <At ms={each.requested_at} /> },
  {
    id: 'completed_at',
    header: texts.columns.completed,
    cell: (each) => (each.completed_at === null ? texts.notCounted : <At ms={each.completed_at} />),
  },
  { id: 'erasure_id', header: texts.columns.id, cell: (each) => <code>{each.erasure_id}</code> },
]
