import { useEffect, useState } from 'preact/hooks'
import type { ImportResource } from '@sluice/contracts/imports'
import { useApi, useInvalidate, useOperationMutation } from '../../api/hooks.ts'
import { messages } from '../../messages/en.ts'
import { UnknownRecord } from '../../page-components/unknown-record.tsx'
import { useSpokenEnd } from '../../page-components/use-spoken-end.ts'
import { useSite } from '../../state/session.tsx'
import { Button } from '../../ui/button.tsx'
import { Details } from '../../ui/details.tsx'
import { Drawer } from '../../ui/dialog.tsx'
import { ConfirmDialog } from '../../ui/form-dialog.tsx'
import { listSource } from '../../ui/list-source.ts'
import { MoreMenu } from '../../ui/more-menu.tsx'
import { Num } from '../../ui/numbers.tsx'
import { ErrorPanel, Progress, SkeletonRows } from '../../ui/states.tsx'
import { At } from '../../ui/time.tsx'
import { ImportErrors } from './import-errors.tsx'
import { ImportStatus, isUnderWay } from './import-status.tsx'
import { texts } from './messages.ts'

const pollMs = 1_000

/** An import: how far it is, what failed and why. It is refetched each second until it has ended. */
export function ImportDrawer({ id, onClose }: { id: string; onClose: () => void }) {
  const params = { import_id: id }
  const invalidate = useInvalidate()
  const { site_id: siteId, timezone: zone } = useSite()
  const record = useApi('getImport', { params }, { staleMs: 0, refetchMs: (data) => pollOf(data) })
  const data = record.data?.site_id === siteId ? record.data : undefined
  const [isCancelling, setCancelling] = useState(false)
  const hasEnded = data !== undefined && !isUnderWay(data)
  useSpokenEnd(data && isUnderWay(data), data === undefined ? '' : texts.statuses[data.status])
  useEffect(() => {
    if (hasEnded) void invalidate('listImports', 'getSite')
  }, [hasEnded])
  return (
    <>
      <Drawer
        title={data === undefined ? messages.nav.imports : texts.title(texts.types[data.type])}
        onClose={onClose}
        actions={
          data !== undefined && isUnderWay(data) ? (
            <Button kind="danger" onClick={() => setCancelling(true)}>
              {texts.cancel}
            </Button>
          ) : undefined
        }
      >
        <div class="stack">
          <ErrorPanel error={record.error} onRetry={record.retry} />
          {record.isLoading ? <SkeletonRows rows={6} /> : null}
          {record.data !== undefined && data === undefined ? <UnknownRecord id={id} /> : null}
          {data === undefined ? null : (
            <>
              {isUnderWay(data) ? (
                <div class="stack-small">
                  <Progress
                    label={texts.progress}
                    {...(data.status === 'processing'
                      ? { value: data.processed_records, max: data.total_records }
                      : {})}
                  />
                  <p class="muted small">{texts.keepOn}</p>
                </div>
              ) : null}
              <div class="row">
                <h3 class="grow">
                  <ImportStatus importRecord={data} />
                </h3>
                <MoreMenu
                  source={listSource(texts.title(texts.types[data.type]), ['getImport', { params }], [data], {
                    fileParts: [siteId, id],
                    zone,
                  })}
                />
              </div>
              <Details
                items={[
                  [
                    texts.columnsOfList.processed,
                    <>
                      <Num kind="exact" value={data.processed_records} name="processed_records" />
                      {` / `}
                      <Num kind="exact" value={data.total_records} name="total_records" />
                    </>,
                  ],
                  [texts.columnsOfList.failed, <Num kind="exact" value={data.failed_records} name="failed_records" />],
                  [texts.columnsOfList.created, <At ms={data.created_at} />],
                  data.finished_at !== null && [texts.finished, <At ms={data.finished_at} />],
                  data.error !== null && [texts.reason, <bdi>{data.error}</bdi>],
                  [texts.id, <code>{data.job_id}</code>],
                ]}
              />
              <Failed importRecord={data} />
            </>
          )}
        </div>
      </Drawer>
      {isCancelling ? <CancelImport id={id} onClose={() => setCancelling(false)} /> : null}
    </>
  )
}

const pollOf = (data: ImportResource | undefined) => (data !== undefined && isUnderWay(data) ? pollMs : false)

function Failed({ importRecord }: { importRecord: ImportResource }) {
  if (importRecord.failed_records === 0)
    return importRecord.status === 'completed' ? <p class="muted">{texts.noErrors}</p> : null
  return <ImportErrors id={importRecord.job_id} count={importRecord.failed_records} />
}

function CancelImport({ id, onClose }: { id: string; onClose: () => void }) {
  const cancel = useOperationMutation('cancelImport', ['getImport', 'listImports'])
  return (
    <ConfirmDialog
      title={texts.cancelTitle}
      submit={texts.cancelConfirm}
      isBusy={cancel.isBusy}
      error={cancel.error}
      onClose={onClose}
      onSubmit={async () => {
        await cancel.run({ params: { import_id: id } })
        onClose()
      }}
    >
      <p>{texts.cancelText}</p>
    </ConfirmDialog>
  )
}
