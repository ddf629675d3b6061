import { useEffect, useState } from 'preact/hooks'
import type { ImportError } from '@sluice/contracts/imports'
import { call, callCsv } from '../../api/client.ts'
import { type ApiError, asApiError } from '../../api/error.ts'
import { problemOf } from '../../api/field-errors.ts'
import { formatNumber } from '../../format/numbers.ts'
import { messages } from '../../messages/en.ts'
import { Button } from '../../ui/button.tsx'
import { listSource } from '../../ui/list-source.ts'
import { MoreMenu } from '../../ui/more-menu.tsx'
import { saveFile } from '../../ui/save-file.ts'
import { ErrorPanel } from '../../ui/states.tsx'
import { VirtualRows } from '../../ui/virtual-rows.tsx'
import { texts } from './messages.ts'

const pageSize = 1_000
/** Rows of the table: browsers cut off what is higher than 17.9 million pixels, Chromium 33.5 million of the screen's own. */
const rowsMax = 100_000
/** The status of the answer when the errors are not kept any longer. */
const gone = 410

type Pages = ReadonlyMap<number, readonly ImportError[]>

/** The records that failed, by line: only the rows on the screen are drawn, and only their pages are fetched. */
export function ImportErrors({ id, count }: { id: string; count: number }) {
  const params = { import_id: id }
  const [pages, setPages] = useState<Pages>(new Map())
  const [wanted, setWanted] = useState<readonly [number, number]>([0, 0])
  const [error, setError] = useState<ApiError>()
  const [isSaving, setSaving] = useState(false)
  const [saveError, setSaveError] = useState<ApiError>()
  const [tries, setTries] = useState(0)
  // While the import runs, the count grows each second: a page that is being loaded is not fetched again meanwhile.
  const [isLoading, setLoading] = useState(false)
  const [requestedCount, setRequestedCount] = useState(count)
  const rowsOf = (page: number) => Math.min(pageSize, requestedCount - page * pageSize)
  useEffect(() => {
    if (!isLoading) setRequestedCount(count)
  }, [isLoading, count])
  useEffect(() => {
    const aborter = new AbortController()
    const load = async () => {
      for (let page = wanted[0]; page <= wanted[1]; page++) {
        // While the import runs, the last page grows.
        if ((pages.get(page)?.length ?? -1) >= rowsOf(page)) continue
        const query = { limit: pageSize, offset: page * pageSize }
        const { errors } = await call('listImportErrors', { params, query }, aborter.signal)
        setPages((before) => new Map([...before, [page, errors]]))
      }
    }
    const end = (failure?: ApiError) => {
      if (aborter.signal.aborted) return
      setError(failure)
      setLoading(false)
    }
    setLoading(true)
    load().then(
      () => end(),
      (failure: unknown) => end(asApiError(failure)),
    )
    return () => aborter.abort()
  }, [id, wanted[0], wanted[1], requestedCount, tries])
  const save = async () => {
    setSaving(true)
    setSaveError(undefined)
    try {
      saveFile(`${id}-errors.csv`, await callCsv('listImportErrors', { params, query: {} }))
    } catch (failure) {
      setSaveError(asApiError(failure))
    }
    setSaving(false)
  }
  if (error?.status === gone || saveError?.status === gone) {
    return (
      <section class="stack-small" aria-label={texts.errors}>
        <h3>{texts.errorsOf(count)}</h3>
        <p class="muted">{texts.gone}</p>
      </section>
    )
  }
  const first = { params, query: { limit: pageSize, offset: 0 } }
  return (
    <section class="stack-small" aria-label={texts.errors}>
      <div class="row">
        <h3 class="grow">{texts.errorsOf(count)}</h3>
        <Button icon="download" isBusy={isSaving} onClick={() => void save()}>
          {messages.more.downloadCsv}
        </Button>
        <MoreMenu
          source={listSource(texts.errors, ['listImportErrors', first], pages.get(0) ?? [], {
            fileParts: [id, 'errors'],
          })}
        />
      </div>
      <p class="muted small">{texts.correct}</p>
      <ErrorPanel error={saveError} />
      <ErrorPanel error={error} onRetry={() => setTries((before) => before + 1)} />
      <VirtualRows
        label={texts.errors}
        headers={[
          texts.errorColumns.line,
          texts.errorColumns.record,
          texts.errorColumns.field,
          texts.errorColumns.message,
        ]}
        count={Math.min(count, rowsMax)}
        cells={(index) => {
          const found = pages.get(Math.floor(index / pageSize))?.[index % pageSize]
          if (found === undefined) return undefined
          return [
            formatNumber(found.line),
            found.record === undefined ? '' : formatNumber(found.record),
            <bdi key="field">{found.field ?? ''}</bdi>,
            <bdi key="message" title={found.message}>
              {problemOf(found.message, found.field) ?? found.message}
            </bdi>,
          ]
        }}
        onRange={(from, to) => setWanted([Math.floor(from / pageSize), Math.floor(to / pageSize)])}
      />
      {count > rowsMax ? <p class="muted small">{texts.errorsEnd(rowsMax)}</p> : null}
    </section>
  )
}
