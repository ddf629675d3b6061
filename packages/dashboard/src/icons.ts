import activity from 'lucide-static/icons/activity.svg'
import arrowDown from 'lucide-static/icons/arrow-down.svg'
import arrowDownRight from 'lucide-static/icons/arrow-down-right.svg'
import arrowLeft from 'lucide-static/icons/arrow-left.svg'
import arrowRight from 'lucide-static/icons/arrow-right.svg'
import arrowUp from 'lucide-static/icons/arrow-up.svg'
import arrowUpRight from 'lucide-static/icons/arrow-up-right.svg'
import bell from 'lucide-static/icons/bell.svg'
import bookOpen from 'lucide-static/icons/book-open.svg'
import chartLine from 'lucide-static/icons/chart-line.svg'
import chartNoAxesColumn from 'lucide-static/icons/chart-no-axes-column.svg'
import check from 'lucide-static/icons/check.svg'
import chevronDown from 'lucide-static/icons/chevron-down.svg'
import chevronRight from 'lucide-static/icons/chevron-right.svg'
import chevronsUpDown from 'lucide-static/icons/chevrons-up-down.svg'
import circleCheck from 'lucide-static/icons/circle-check.svg'
import circleMinus from 'lucide-static/icons/circle-minus.svg'
import circleX from 'lucide-static/icons/circle-x.svg'
import clock from 'lucide-static/icons/clock.svg'
import copy from 'lucide-static/icons/copy.svg'
import download from 'lucide-static/icons/download.svg'
import ellipsis from 'lucide-static/icons/ellipsis.svg'
import externalLink from 'lucide-static/icons/external-link.svg'
import fileDown from 'lucide-static/icons/file-down.svg'
import fileUp from 'lucide-static/icons/file-up.svg'
import funnel from 'lucide-static/icons/funnel.svg'
import globe from 'lucide-static/icons/globe.svg'
import grid3x3 from 'lucide-static/icons/grid-3x3.svg'
import keyRound from 'lucide-static/icons/key-round.svg'
import keyboard from 'lucide-static/icons/keyboard.svg'
import list from 'lucide-static/icons/list.svg'
import listFilter from 'lucide-static/icons/list-filter.svg'
import loader from 'lucide-static/icons/loader.svg'
import lock from 'lucide-static/icons/lock.svg'
import logOut from 'lucide-static/icons/log-out.svg'
import menu from 'lucide-static/icons/menu.svg'
import pause from 'lucide-static/icons/pause.svg'
import play from 'lucide-static/icons/play.svg'
import plus from 'lucide-static/icons/plus.svg'
import radio from 'lucide-static/icons/radio.svg'
import refreshCw from 'lucide-static/icons/refresh-cw.svg'
import search from 'lucide-static/icons/search.svg'
import send from 'lucide-static/icons/send.svg'
import settings from 'lucide-static/icons/settings.svg'
import slidersHorizontal from 'lucide-static/icons/sliders-horizontal.svg'
import trash from 'lucide-static/icons/trash.svg'
import triangleAlert from 'lucide-static/icons/triangle-alert.svg'
import user from 'lucide-static/icons/user.svg'
import users from 'lucide-static/icons/users.svg'
import webhook from 'lucide-static/icons/webhook.svg'
import x from 'lucide-static/icons/x.svg'

/** The icons that the pages use, by their names in Lucide: the elements of each, drawn in a square of 24. */
export const icons = {
  activity,
  'arrow-down': arrowDown,
  'arrow-down-right': arrowDownRight,
  'arrow-left': arrowLeft,
  'arrow-right': arrowRight,
  'arrow-up': arrowUp,
  'arrow-up-right': arrowUpRight,
  bell,
  'book-open': bookOpen,
  'chart-line': chartLine,
  'chart-no-axes-column': chartNoAxesColumn,
  check,
  'chevron-down': chevronDown,
  'chevron-right': chevronRight,
  'chevrons-up-down': chevronsUpDown,
  'circle-check': circleCheck,
  'circle-minus': circleMinus,
  'circle-x': circleX,
  clock,
  copy,
  download,
  ellipsis,
  'external-link': externalLink,
  'file-down': fileDown,
  'file-up': fileUp,
  funnel,
  globe,
  'grid-3x3': grid3x3,
  'key-round': keyRound,
  keyboard,
  list,
  'list-filter': listFilter,
  loader,
  lock,
  'log-out': logOut,
  menu,
  pause,
  play,
  plus,
  radio,
  'refresh-cw': refreshCw,
  search,
  send,
  settings,
  'sliders-horizontal': slidersHorizontal,
  trash,
  'triangle-alert': triangleAlert,
  user,
  users,
  webhook,
  x,
} as const

export type IconName = keyof typeof icons
