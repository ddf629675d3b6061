import { messages } from '../messages/en.ts'

interface ListEndProps {
  /** Records of the list that the page has. */
  listed: number
  /** Records that there are. */
  total: number
  /** Path of the operation that lists the others, page by page. */
  path: string
}

/** Says that a list ends before its last record, and how to get the others. */
export const ListEnd = ({ listed, total, path }: ListEndProps) =>
  listed < total ? (
    <p class="muted">{messages.listEnd(listed, total, `${path}?limit=${listed}&offset=${listed}`)}</p>
  ) : null
