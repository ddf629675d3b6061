import { requestOf } from '../api/request.ts'
import type { Input } from '../api/wire.ts'
import { messages } from '../messages/en.ts'

/** Operations that list records page by page. */
type ListOperation = 'listKeys' | 'listSites'

interface ListEndProps<Id extends ListOperation> {
  id: Id
  /** The answer: the records that the page has, and how many there are. */
  listed: number
  total: number
}

/** Says that a list ends before its last record, and which request gives the next ones. */
export function ListEnd<Id extends ListOperation>({ id, listed, total }: ListEndProps<Id>) {
  if (listed >= total) return null
  const { path } = requestOf(id, { query: { limit: listed, offset: listed } } as Input<Id>)
  return <p class="muted">{messages.listEnd(listed, total, path)}</p>
}
