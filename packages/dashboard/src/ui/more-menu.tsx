import { useState } from 'preact/hooks'
import type { ApiRequest } from '../api/request.ts'
import { type CsvRow, fieldsOf, toCsv } from '../format/csv.ts'
import { type CurlRequest, toCurl } from '../format/curl.ts'
import { messages } from '../messages/en.ts'
import { Button } from './button.tsx'
import { copyText } from './copy.tsx'
import { Dialog } from './dialog.tsx'
import { Num } from './numbers.tsx'
import { Action, Popover } from './popover.tsx'
import { saveFile } from './save-file.ts'
import { DataTable } from './table.tsx'

/** Where numbers come from: the query that fetched them, from which their CSV and their curl command are made. */
export interface NumberSource {
  /** Names the number or table: `Visitors`, `Pages`. */
  label: string
  /** The query, without the others of the page's batch. */
  request: ApiRequest
  /** Parameters to add to copied links: the address omits defaults, which may change later. */
  linked?: Readonly<Record<string, string>>
  /**
   * The same query with dates relative to now, where its dates are chosen so: `period=24h`, or dates of the shell.
   */
  relativeRequest?: CurlRequest | undefined
  /** The answer as rows. */
  rows: () => CsvRow[]
  /** File name of the CSV. */
  fileName: string
  /** The one number, for Copy value. */
  value?: number
  /** Leads to a new alert rule on this metric. */
  alertHref?: string
}

/**
 * The address of the page, with the environment that was queried: without it, the view has the environment of the
 * reader's own key.
 */
function linkOf({ request: { path, body }, linked }: NumberSource): string {
  const inPath = Object.fromEntries(new URL(path, location.origin).searchParams)
  const inBody = body as { environment?: string; queries?: { environment?: string }[] } | undefined
  const { environment } = { ...inPath, ...inBody, ...inBody?.queries?.[0] }
  const { href, search } = location
  const present = new URLSearchParams(search)
  const all = { ...linked, ...(environment === undefined ? {} : { env: environment }) }
  const lacking = new URLSearchParams(Object.entries(all).filter(([name]) => !present.has(name))).toString()
  return lacking === '' ? href : `${href}${search === '' ? '?' : '&'}${lacking}`
}

/**
 * The button named "More" of a number, chart, panel or table, with everything that can be copied or downloaded; nothing
 * without a source. A source that depends on an answer comes from `useFromAnswer`.
 */
export function MoreMenu({ source }: { source: NumberSource | undefined }) {
  return source === undefined ? null : <Menu source={source} />
}

/** A component of its own: an open table closes when there is no source, and does not open again with the next one. */
function Menu({ source }: { source: NumberSource }) {
  const what = messages.more.what
  const [isTable, setTable] = useState(false)
  const { label, request, relativeRequest, rows, fileName, value, alertHref } = source
  return (
    <>
      {isTable ? <TableDialog source={source} onClose={() => setTable(false)} /> : null}
      <Popover
        kind="actions"
        label={`${messages.more.button}: ${label}`}
        button={(attributes) => (
          <Button
            kind="quiet"
            icon="ellipsis"
            isIconOnly
            class="more"
            title={`${messages.more.button}: ${label}`}
            {...attributes}
          >
            {messages.more.button}
          </Button>
        )}
      >
        {(close) => {
          const copies = (text: string, name: string) => () => {
            close()
            void copyText(text, name)
          }
          return (
            <>
              {value === undefined ? null : (
                <Action onSelect={copies(String(value), what.value)} detail={String(value)}>
                  {messages.more.copyValue}
                </Action>
              )}
              <Action onSelect={copies(toCsv(rows()), what.csv)} detail={messages.more.copyCsvRows(rows().length)}>
                {messages.more.copyCsv}
              </Action>
              <Action onSelect={copies(toCurl(request, location.origin), what.curl)}>{messages.more.copyCurl}</Action>
              {relativeRequest === undefined ? null : (
                <Action onSelect={copies(toCurl(relativeRequest, location.origin), what.curl)}>
                  {messages.more.copyRelativeCurl}
                </Action>
              )}
              <Action onSelect={copies(linkOf(source), what.link)}>{messages.more.copyLink}</Action>
              <Action
                onSelect={() => {
                  close()
                  saveFile(fileName, toCsv(rows()))
                }}
              >
                {messages.more.downloadCsv}
              </Action>
              <Action
                onSelect={() => {
                  close()
                  setTable(true)
                }}
              >
                {messages.more.showTable}
              </Action>
              {alertHref === undefined ? null : (
                <a class="menu-item" href={alertHref}>
                  {messages.more.alert}
                </a>
              )}
            </>
          )
        }}
      </Popover>
    </>
  )
}

/** The rows of a source as a table, as its CSV has them. */
export function TableDialog({ source, onClose }: { source: NumberSource; onClose: () => void }) {
  const rows = source.rows().map((row, at) => ({ row, at }))
  const fields = fieldsOf(rows.map(({ row }) => row))
  return (
    <Dialog title={source.label} size="large" onClose={onClose}>
      <DataTable<{ row: CsvRow; at: number }>
        caption={source.label}
        rows={rows}
        rowKey={({ at }) => String(at)}
        empty={<p class="muted">{messages.more.copyCsvRows(0)}</p>}
        columns={fields.map((field) => ({
          id: field,
          header: field,
          sort: ({ row }) => numberOrText(row[field]),
          cell: ({ row }) => {
            const value = row[field]
            return typeof value === 'number' ? (
              <Num value={value} kind="exact" />
            ) : (
              <bdi>{value == null ? '' : String(value)}</bdi>
            )
          },
          ...(typeof rows[0]?.row[field] === 'number' ? { align: 'end' as const } : {}),
        }))}
      />
    </Dialog>
  )
}

const numberOrText = (value: CsvRow[string]) => (typeof value === 'number' ? value : (value ?? '').toString())
