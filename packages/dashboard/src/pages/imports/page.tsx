import { useState } from 'preact/hooks'
import type { ImportResource } from '@sluice/contracts/imports'
import { useApi } from '../../api/hooks.ts'
import { messages } from '../../messages/en.ts'
import { ResourceList } from '../../page-components/resource-list.tsx'
import { usePageParameter } from '../../state/hooks.ts'
import { useSite } from '../../state/session.tsx'
import { Num } from '../../ui/numbers.tsx'
import type { Column } from '../../ui/table.tsx'
import { Ago } from '../../ui/time.tsx'
import { ImportDrawer } from './import-drawer.tsx'
import { ImportStatus, isUnderWay } from './import-status.tsx'
import { texts } from './messages.ts'
import { UploadDialog } from './upload-dialog.tsx'

const limit = 50
const pollMs = 2_000
/** While none is under way: others who use the site start new ones. */
const waitingMs = 30_000

/** The imports of the site, and the way to a new one. */
export default function Page() {
  const { site_id: siteId } = useSite()
  const [openId, setOpen] = usePageParameter('open')
  const [from, setFrom] = usePageParameter('offset')
  const [isNew, setNew] = useState(false)
  const query = { query: { site_id: siteId, limit, offset: Number(from) || 0 } }
  const imports = useApi('listImports', query, {
    staleMs: 0,
    refetchMs: (data) => (data === undefined ? false : data.imports.some(isUnderWay) ? pollMs : waitingMs),
  })
  return (
    <>
      <ResourceList
        title={messages.nav.imports}
        sentence={texts.sentence}
        request={['listImports', query]}
        answer={imports}
        records={imports.data?.imports}
        fileParts={[siteId, 'imports']}
        create={{
          label: texts.start,
          icon: 'file-up',
          onClick: () => setNew(true),
        }}
        empty={{ icon: 'file-up', title: texts.none, why: texts.noneWhy }}
        columns={columns}
        rowKey={(each) => each.job_id}
        openKey={openId}
        onOpen={setOpen}
        pager={{
          ...query.query,
          total: imports.data?.total ?? 0,
          onChange: (offset, isReplaced) => setFrom(offset === 0 ? undefined : String(offset), isReplaced),
        }}
      />
      {openId === undefined ? null : <ImportDrawer key={openId} id={openId} onClose={() => setOpen(undefined)} />}
      {isNew ? (
        <UploadDialog
          onClose={() => setNew(false)}
          onAccepted={(id) => {
            setNew(false)
            setOpen(id)
          }}
        />
      ) : null}
    </>
  )
}

const columns: readonly Column<ImportResource>[] = [
  {
    id: 'created_at',
    header: texts.columnsOfList.created,
    cell: (each) => <Ago ms={each.created_at} />,
    sort: (each) => each.created_at,
  },
  {
    id: 'type',
    header: texts.columnsOfList.type,
    cell: (each) => texts.types[each.type],
    sort: (each) => each.type,
  },
  {
    id: 'status',
    header: texts.columnsOfList.status,
    cell: (each) => <ImportStatus importRecord={each} />,
    sort: (each) => each.status,
  },
  {
    id: 'total_records',
    header: texts.columnsOfList.total,
    align: 'end',
    cell: (each) => <Num kind="exact" value={each.total_records} name={`${each.job_id} total_records`} />,
    sort: (each) => each.total_records,
  },
  {
    id: 'processed_records',
    header: texts.columnsOfList.processed,
    align: 'end',
    cell: (each) => <Num kind="exact" value={each.processed_records} name={`${each.job_id} processed_records`} />,
    sort: (each) => each.processed_records,
  },
  {
    id: 'failed_records',
    header: texts.columnsOfList.failed,
    align: 'end',
    cell: (each) => (
      <span class={each.failed_records > 0 ? 'has-failed' : undefined}>
        <Num kind="exact" value={each.failed_records} name={`${each.job_id} failed_records`} />
      </span>
    ),
    sort: (each) => each.failed_records,
  },
]
