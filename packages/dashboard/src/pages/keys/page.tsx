import { useState } from 'preact/hooks'
import type { KeyResource } from '@sluice/contracts/keys'
import { pageDefaults } from '@sluice/contracts/paging'
import { type Environment, grants } from '@sluice/contracts/scopes'
import { serverNow } from '../../api/client.ts'
import {
  type ApiState,
  useApi,
  useFromAnswer,
  useInvalidate,
  useIsCurrent,
  useOperationMutation,
} from '../../api/hooks.ts'
import type { Data } from '../../api/wire.ts'
import { messages } from '../../messages/en.ts'
import { isFound, ListSearch } from '../../page-components/list-search.tsx'
import { UnknownRecord } from '../../page-components/unknown-record.tsx'
import { usePageParameter } from '../../state/hooks.ts'
import { useSession } from '../../state/session.tsx'
import { Button } from '../../ui/button.tsx'
import { Checkbox } from '../../ui/choice.tsx'
import { CopyButton } from '../../ui/copy.tsx'
import { SecretDialog } from '../../ui/form-dialog.tsx'
import { listSource } from '../../ui/list-source.ts'
import { MoreMenu } from '../../ui/more-menu.tsx'
import { Pager } from '../../ui/pager.tsx'
import { EmptyState, ErrorPanel, PageTitle, SkeletonRows } from '../../ui/states.tsx'
import { type Column, DataTable } from '../../ui/table.tsx'
import { Ago } from '../../ui/time.tsx'
import type { KeyBody } from './key-draft.ts'
import { KeyDrawer, type Revealed } from './key-drawer.tsx'
import { KeyForm } from './key-form.tsx'
import { KeyState } from './key-state.tsx'
import { texts } from './messages.ts'
import { presetOf, stateOf } from './presets.ts'

/** The last use has to be current: users delete a rotated key once it is no longer used. */
const refreshMs = 30_000

/** All keys: what each may do, when it was used, and for how long it works. */
export default function Page() {
  const [revealed, setRevealed] = useState<Revealed>()
  // The list stays as it is until a new key is saved.
  const refetchMs = revealed === undefined ? refreshMs : false
  const [from, setFrom] = usePageParameter('offset')
  const query = { query: { limit: pageDefaults.limitMax, offset: Number(from) || 0 } }
  const keys = useApi('listKeys', query, { refetchMs, staleMs: 0 })
  const source = useFromAnswer(keys, (answer) =>
    listSource(messages.nav.keys, ['listKeys', query], answer.keys, { fileParts: ['api-keys'] }),
  )
  const invalidate = useInvalidate()
  const [openId, setOpen] = usePageParameter('open')
  const { open, notice } = useOpenKey(openId, keys, refetchMs)
  const [search, setSearch] = useState('')
  const [isNew, setNew] = useState(false)
  const [isHiding, setHiding] = useState(false)
  const records = keys.data?.keys ?? []
  const isEnded = (key: KeyResource) => ['expired', 'revoked'].includes(stateOf(key, serverNow()))
  const isWhole = keys.data !== undefined && records.length >= keys.data.total
  const ended = records.filter(isEnded)
  const live = records.filter((key) => !isEnded(key))
  const shown = (isHiding ? live : [...live, ...ended]).filter((key) =>
    isFound(search, key.name, key.hint, ...(key.site_ids ?? [])),
  )
  return (
    <>
      <PageTitle
        title={messages.nav.keys}
        sentence={texts.sentence}
        actions={
          <>
            {keys.data === undefined ? null : <MoreMenu source={source} />}
            <Button kind="primary" icon="plus" onClick={() => setNew(true)}>
              {texts.create}
            </Button>
          </>
        }
      />
      <ErrorPanel error={keys.error} onRetry={keys.retry} />
      {keys.isLoading ? <SkeletonRows rows={6} /> : null}
      {keys.data === undefined ? null : (
        <div class="stack">
          {notice}
          <ListSearch label={texts.find} rows={records.length} value={search} onInput={setSearch} />
          <DataTable
            caption={messages.nav.keys}
            columns={columns}
            rows={shown}
            rowKey={(key) => key.key_id}
            openKey={openId}
            onOpen={(key) => setOpen(key.key_id)}
            empty={
              records.length > 0 ? (
                <EmptyState title={search === '' ? texts.noneLive : texts.noMatch(search, isWhole)} />
              ) : keys.data.total > 0 ? (
                // The pager goes to the last page that has records.
                <SkeletonRows rows={6} />
              ) : (
                <EmptyState icon="key-round" title={texts.none} why={texts.noneWhy} />
              )
            }
          />
          <Pager
            {...query.query}
            total={keys.data.total}
            onChange={(offset, isReplaced) => setFrom(offset === 0 ? undefined : String(offset), isReplaced)}
          />
          {ended.length === 0 ? null : (
            <Checkbox label={texts.hideEnded(ended.length)} checked={isHiding} onChange={setHiding} />
          )}
        </div>
      )}
      {open === undefined ? null : (
        <KeyDrawer
          key={open.key_id}
          apiKey={open}
          onClose={() => setOpen(undefined)}
          onReveal={(next) => {
            setOpen(undefined)
            setRevealed(next)
          }}
        />
      )}
      {isNew ? (
        <NewKey
          onClose={() => setNew(false)}
          onReveal={(next) => {
            setNew(false)
            setRevealed(next)
          }}
        />
      ) : null}
      {revealed === undefined ? null : (
        <SecretDialog
          title={revealed.title}
          secret={revealed.key}
          what={texts.what}
          actions={
            grants(revealed.scopes, 'stats:read') ? (
              <CopyButton
                label={texts.copyLink}
                text={`${location.origin}/#key=${revealed.key}`}
                what={messages.more.what.link}
              />
            ) : undefined
          }
          onSaved={() => {
            setRevealed(undefined)
            void invalidate('listKeys', 'listSites')
          }}
        >
          {revealed.text}
        </SecretDialog>
      )}
    </>
  )
}

/**
 * The key whose id is in the address, requested by itself when the listed page lacks it, and the notice to show when it
 * is not found.
 */
function useOpenKey(id: string | undefined, list: ApiState<Data<'listKeys'>>, refetchMs: number | false) {
  const isCurrent = useIsCurrent(list)
  const listed = list.data?.keys.find((key) => key.key_id === id)
  const isMissing = id !== undefined && listed === undefined && isCurrent && list.data !== undefined
  const isWhole = list.data !== undefined && list.data.keys.length >= list.data.total
  const single = useApi('getKey', isMissing && !isWhole ? { params: { key_id: id } } : null, {
    refetchMs,
    staleMs: 0,
    keepsPreviousData: false,
  })
  const isUnknown = isMissing && (isWhole || single.error?.status === 404)
  const notice = isUnknown ? <UnknownRecord id={id} /> : <ErrorPanel error={single.error} onRetry={single.retry} />
  return { open: listed ?? single.data, notice }
}

function NewKey({ onClose, onReveal }: { onClose: () => void; onReveal: (revealed: Revealed) => void }) {
  // The list is refetched only once the key is saved.
  const create = useOperationMutation('createKey')
  const submit = async (body: KeyBody, environment: Environment) => {
    const { key } = await create.run({ body: { ...body, environment } })
    onReveal({ title: texts.reveal, text: texts.revealText, key, scopes: body.scopes })
  }
  return <KeyForm onSubmit={submit} onClose={onClose} isBusy={create.isBusy} error={create.error} />
}

function NameCell({ apiKey }: { apiKey: KeyResource }) {
  const session = useSession()
  return (
    <>
      <bdi>{apiKey.name}</bdi>
      {apiKey.key_id === session.key_id ? <span class="tag">{texts.thisSession}</span> : null}
    </>
  )
}

const columns: readonly Column<KeyResource>[] = [
  { id: 'name', header: texts.name, cell: (key) => <NameCell apiKey={key} />, sort: (key) => key.name.toLowerCase() },
  { id: 'hint', header: texts.columns.key, cell: (key) => <code class="muted nowrap">{key.hint}</code> },
  {
    id: 'environment',
    header: texts.environment,
    cell: (key) => texts.environments[key.environment],
    sort: (key) => key.environment,
  },
  {
    id: 'scopes',
    header: texts.scopes,
    cell: (key) => {
      const preset = presetOf(key)
      return (
        <span title={key.scopes.join(', ')}>
          {preset === 'custom' ? key.scopes.join(', ') : texts.presets[preset].label}
        </span>
      )
    },
    sort: (key) => key.scopes.join(),
  },
  {
    id: 'sites',
    header: texts.sites,
    cell: (key) =>
      key.site_ids === null ? (
        texts.allSites
      ) : (
        <bdi title={key.site_ids.join(', ')}>
          {key.site_ids.slice(0, 2).join(', ')}
          {key.site_ids.length > 2 ? ` + ${key.site_ids.length - 2}` : ''}
        </bdi>
      ),
    sort: (key) => key.site_ids?.join() ?? '',
  },
  {
    id: 'last_used_at',
    header: texts.columns.lastUsed,
    cell: (key) =>
      key.last_used_at === null ? <span class="muted">{texts.never}</span> : <Ago ms={key.last_used_at} />,
    sort: (key) => key.last_used_at ?? 0,
  },
  {
    id: 'state',
    header: texts.columns.state,
    cell: (key) => <KeyState apiKey={key} />,
    sort: (key) => key.revoked_at ?? key.expires_at ?? Number.MAX_SAFE_INTEGER,
  },
]
