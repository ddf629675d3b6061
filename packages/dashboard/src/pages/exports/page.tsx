import { useState } from 'preact/hooks'
import type { ExportResource } from '@sluice/contracts/exports'
import { useApi } from '../../api/hooks.ts'
import { formatBytes, formatProgress } from '../../format/numbers.ts'
import { messages } from '../../messages/en.ts'
import { ResourceList } from '../../page-components/resource-list.tsx'
import { usePageParameter } from '../../state/hooks.ts'
import { useSite } from '../../state/session.tsx'
import { Num } from '../../ui/numbers.tsx'
import type { Column } from '../../ui/table.tsx'
import { Ago } from '../../ui/time.tsx'
import { ExportDrawer } from './export-drawer.tsx'
import { ExportForm } from './export-form.tsx'
import { ExportStatus } from './export-status.tsx'
import { texts } from './messages.ts'
import { refreshMsOf } from './refresh.ts'

const limit = 50
const pollMs = 2_000

/** The exports of the site and their files, and the way to a new one. */
export default function Page() {
  const { site_id: siteId } = useSite()
  const [openId, setOpen] = usePageParameter('open')
  const [from, setFrom] = usePageParameter('offset')
  const [isNew, setNew] = useState(false)
  const query = { query: { site_id: siteId, limit, offset: Number(from) || 0 } }
  const exports = useApi('listExports', query, {
    staleMs: 0,
    refetchMs: (data) => refreshMsOf(data?.exports, pollMs),
  })
  return (
    <>
      <ResourceList
        title={messages.nav.exports}
        sentence={texts.sentence}
        request={['listExports', query]}
        answer={exports}
        records={exports.data?.exports}
        fileParts={[siteId, 'exports']}
        create={{
          label: texts.create,
          icon: 'plus',
          onClick: () => setNew(true),
        }}
        empty={{ icon: 'file-down', title: texts.none, why: texts.noneWhy }}
        columns={columns}
        rowKey={(each) => each.export_id}
        openKey={openId}
        onOpen={setOpen}
        pager={{
          ...query.query,
          total: exports.data?.total ?? 0,
          onChange: (offset, isReplaced) => setFrom(offset === 0 ? undefined : String(offset), isReplaced),
        }}
      />
      {openId === undefined ? null : (
        <ExportDrawer key={openId} id={openId} onClose={() => setOpen(undefined)} onOpen={setOpen} />
      )}
      {isNew ? (
        <ExportForm
          onClose={() => setNew(false)}
          onCreated={(id) => {
            setNew(false)
            setOpen(id)
          }}
        />
      ) : null}
    </>
  )
}

const columns: readonly Column<ExportResource>[] = [
  { id: 'name', header: texts.columns.name, cell: (each) => <bdi>{each.name}</bdi>, sort: (each) => each.name },
  { id: 'type', header: texts.columns.type, cell: (each) => texts.types[each.type], sort: (each) => each.type },
  { id: 'format', header: texts.columns.format, cell: (each) => texts.formatOf(each), sort: texts.formatOf },
  {
    id: 'status',
    header: texts.columns.status,
    cell: (each) => (
      <>
        <ExportStatus exportRecord={each} />
        {each.status === 'processing' ? <span class="muted"> {formatProgress(each.progress)}</span> : null}
      </>
    ),
    sort: (each) => each.status,
  },
  {
    id: 'rows',
    header: texts.columns.rows,
    align: 'end',
    cell: (each) => <Num kind="exact" value={each.rows} name={`${each.export_id} rows`} />,
    sort: (each) => each.rows,
  },
  {
    id: 'bytes',
    header: texts.columns.bytes,
    align: 'end',
    cell: (each) => (each.bytes === 0 ? '–' : <span class="nowrap">{formatBytes(each.bytes)}</span>),
    sort: (each) => each.bytes,
  },
  {
    id: 'next',
    header: texts.columns.next,
    cell: (each) => (each.scheduled === null || each.scheduled.paused ? '–' : <Ago ms={each.scheduled.next_run} />),
    sort: (each) => each.scheduled?.next_run ?? 0,
  },
  {
    id: 'created_at',
    header: texts.columns.created,
    cell: (each) => <Ago ms={each.created_at} />,
    sort: (each) => each.created_at,
  },
]
