import { type ApiState, useFromAnswer } from '../api/hooks.ts'
import type { Input, OperationId } from '../api/wire.ts'
import { useSite } from '../state/session.tsx'
import { Button } from '../ui/button.tsx'
import type { IconName } from '../ui/icon.tsx'
import { listSource } from '../ui/list-source.ts'
import { MoreMenu } from '../ui/more-menu.tsx'
import { Pager, type PagerProps } from '../ui/pager.tsx'
import { EmptyState, ErrorPanel, PageTitle, SkeletonRows } from '../ui/states.tsx'
import { type Column, DataTable } from '../ui/table.tsx'

interface ResourceListProps<Id extends OperationId, Row extends object> {
  title: string
  sentence: string
  /** The operation that lists the records, and its input. */
  request: readonly [Id, Input<Id>]
  answer: ApiState<unknown>
  /** The records of the answer; undefined until it has arrived. */
  records: readonly Row[] | undefined
  /** Parts of the CSV file's name. */
  fileParts: readonly string[]
  /** The button that creates a record. */
  create: { label: string; icon: IconName; onClick: () => void }
  /** The text shown while there are no records. */
  empty: { icon: IconName; title: string; why: string }
  columns: readonly Column<Row>[]
  rowKey: (row: Row) => string
  /** Key of the record that is open. */
  openKey?: string | undefined
  onOpen: (key: string) => void
  pager?: PagerProps | undefined
}

/** A page's title, a table of the site's records that opens them, and a button that creates one. */
export function ResourceList<Id extends OperationId, Row extends object>({
  title,
  sentence,
  request,
  answer,
  records,
  fileParts,
  create: { label, icon, onClick },
  empty,
  columns,
  rowKey,
  openKey,
  onOpen,
  pager,
}: ResourceListProps<Id, Row>) {
  const { timezone: zone } = useSite()
  const source = useFromAnswer({ data: records, isPlaceholderData: answer.isPlaceholderData }, (listed) =>
    listSource(title, request, listed, { fileParts, zone }),
  )
  const create = (
    <Button kind="primary" icon={icon} onClick={onClick}>
      {label}
    </Button>
  )
  return (
    <>
      <PageTitle
        title={title}
        sentence={sentence}
        actions={
          records === undefined || records.length === 0 ? undefined : (
            <>
              <MoreMenu source={source} />
              {create}
            </>
          )
        }
      />
      <ErrorPanel error={answer.error} onRetry={answer.retry} />
      {answer.isLoading ? <SkeletonRows rows={6} /> : null}
      {records === undefined ? null : (
        <>
          <DataTable
            caption={title}
            columns={columns}
            rows={records}
            rowKey={rowKey}
            openKey={openKey}
            onOpen={(row) => onOpen(rowKey(row))}
            empty={
              // The pager goes to the last page that has records.
              pager !== undefined && pager.total > 0 ? (
                <SkeletonRows rows={6} />
              ) : (
                <EmptyState {...empty} action={create} />
              )
            }
          />
          {pager === undefined ? null : <Pager {...pager} />}
        </>
      )}
    </>
  )
}
