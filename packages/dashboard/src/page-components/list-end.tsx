import { requestOf } from '../api/request.ts'
import { messages } from '../messages/en.ts'

interface ListEndProps {
  /** The answer: the records that the page has, and how many there are. */
  listed: number
  total: number
}

/** Says that the list of sites ends before its last record, and which request gives the next ones. */
export function ListEnd({ listed, total }: ListEndProps) {
  if (listed >= total) return null
  const { path } = requestOf('listSites', { query: { limit: listed, offset: listed } })
  return <p class="muted">{messages.listEnd(listed, total, path)}</p>
}
