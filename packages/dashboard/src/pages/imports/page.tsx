import { useState } from 'preact/hooks'
import type { ImportResource } from '@sluice/contracts/imports'
import { useApi } from '../../api/hooks.ts'
import { messages } from '../../messages/en.ts'
import { usePageParameter } from '../../state/hooks.ts'
import { useSite } from '../../state/session.tsx'
import { Button } from '../../ui/button.tsx'
import { listSource } from '../../ui/list-source.ts'
import { MoreMenu, Num } from '../../ui/numbers.tsx'
import { Pager } from '../../ui/pager.tsx'
import { EmptyState, ErrorPanel, PageTitle, SkeletonRows } from '../../ui/states.tsx'
import { type Column, DataTable } from '../../ui/table.tsx'
import { Ago } from '../../ui/time.tsx'
import { ImportDrawer } from './import-drawer.tsx'
import { ImportStatus, isUnderWay } from './import-status.tsx'
import { texts } from './messages.ts'
import { UploadDialog } from './upload-dialog.tsx'

const limit = 50
const pollMs = 2_000

/** The imports of the site, and the way to a new one. */
export default function Page() {
  const { site_id: siteId } = useSite()
  const [openId, setOpen] = usePageParameter('open')
  const [from, setFrom] = usePageParameter('offset')
  const [isNew, setNew] = useState(false)
  const query = { query: { site_id: siteId, limit, offset: Number(from) || 0 } }
  const imports = useApi('listImports', query, {
    staleMs: 0,
    refetchMs: (data) => (data?.imports.some(isUnderWay) === true ? pollMs : false),
  })
  const records = imports.data?.imports ?? []
  const start = (
    <Button
      kind="primary"
      icon="file-up"
      onClick={() => {
        setNew(true)
      }}
    >
      {texts.start}
    </Button>
  )
  return (
    <>
      <PageTitle
        title={messages.nav.imports}
        sentence={texts.sentence}
        actions={
          records.length === 0 ? undefined : (
            <>
              <MoreMenu
                source={listSource(messages.nav.imports, ['listImports', query], records, [siteId, 'imports'])}
              />
              {start}
            </>
          )
        }
      />
      {imports.error === undefined ? null : <ErrorPanel error={imports.error} onRetry={imports.retry} />}
      {imports.isLoading ? <SkeletonRows rows={6} /> : null}
      {imports.data === undefined ? null : (
        <>
          <DataTable
            caption={messages.nav.imports}
            columns={columns}
            rows={records}
            rowKey={(each) => each.job_id}
            openKey={openId}
            onOpen={(each) => {
              setOpen(each.job_id)
            }}
            empty={<EmptyState icon="file-up" title={texts.none} why={texts.noneWhy} action={start} />}
          />
          <Pager
            {...query.query}
            total={imports.data.total}
            onChange={(offset) => {
              setFrom(offset === 0 ? undefined : String(offset))
            }}
          />
        </>
      )}
      {openId === undefined ? null : (
        <ImportDrawer
          key={openId}
          id={openId}
          onClose={() => {
            setOpen(undefined)
          }}
        />
      )}
      {isNew ? (
        <UploadDialog
          onClose={() => {
            setNew(false)
          }}
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
    cell: (each) => <ImportStatus of={each} />,
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
