"""What the commands say, in English and Chinese. Help stays English."""

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_WORDS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "created": ("Stored {id}.", "已保存 {id}。"),
        "merged": ("Already known as {id}; tags and sources were joined.", "已有此记忆 {id}；标签和来源已合并。"),
        "revived": ("Brought back {id}.", "已恢复 {id}。"),
        "was_forgotten": ("This text was deleted before; nothing was written.", "此内容曾被删除，未保存。"),
        "revive_text": ("Add --revive to bring it back.", "加 --revive 可恢复。"),
        "no_results": ("Nothing found.", "没有找到。"),
        "page": ("Page {page}: {count} memories.", "第 {page} 页：{count} 条记忆。"),
        "more": ("There are more: --page {page}", "还有更多：--page {page}"),
        "updated": ("Updated {id}.", "已更新 {id}。"),
        "superseded": ("The new text is {new}; it supersedes {id}.", "新内容为 {new}，取代 {id}。"),
        "would_delete": ("These would go into the trash:", "以下记忆将移入回收站："),
        "would_purge": ("These would be erased for good:", "以下记忆将被永久清除："),
        "confirm_delete": ("Delete {count}?", "删除 {count} 条？"),
        "confirm_purge": ("Erase {count} for good, everywhere?", "在所有设备上永久清除 {count} 条？"),
        "deleted": (
            "Deleted {count}; `shoal revive` works until {until}.",
            "已删除 {count} 条；{until} 前可用 `shoal revive` 恢复。",
        ),
        "purged": ("Erased {count}.", "已永久清除 {count} 条。"),
        "cancelled": ("Nothing was changed.", "未作任何更改。"),
        "came_back": ("Brought back {count}.", "已恢复 {count} 条。"),
        "not_in_trash": ("Not in the trash: {ids}", "不在回收站中：{ids}"),
        "seeded": (
            "{created} stored, {merged} already known, {skipped} skipped.",
            "新增 {created} 条，已有 {merged} 条，跳过 {skipped} 条。",
        ),
        "more_skipped": ("{count} more lines were skipped.", "另有 {count} 行被跳过。"),
        "backed_up": ("Backed up to {path} ({size}), checked.", "已备份到 {path}（{size}），校验无误。"),
        "restored": ("Restored {path}.", "已还原 {path}。"),
        "kept_aside": ("The database from before is now {path}.", "原数据库已另存为 {path}。"),
        "backing_up": ("Backing up", "正在备份"),
        "checking": ("Checking", "正在检查"),
        "restoring": ("Restoring", "正在还原"),
        "embedding": ("Making vectors", "正在生成向量"),
        "loading_model": ("Converting the model, once", "正在转换模型（仅一次）"),
        "seeding": ("Storing", "正在保存"),
        "serving": ("shoal serves {url}  (MCP: {url}/mcp)", "shoal 服务地址 {url}（MCP：{url}/mcp）"),
        "port_taken": ("Port {wanted} is taken, so this daemon uses {port}.", "端口 {wanted} 已被占用，改用 {port}。"),
        "col_score": ("Score", "得分"),
        "col_memory": ("Memory", "记忆"),
        "col_state": ("State", "状态"),
        "col_check": ("Check", "检查"),
        "col_found": ("Found", "结果"),
        "all_well": ("All is well.", "一切正常。"),
        "total": ("Memories", "记忆总数"),
        "live": ("Live", "有效"),
        "archived": ("Archived", "已归档"),
        "trashed": ("In the trash", "回收站"),
        "pending": ("Waiting for a vector", "等待生成向量"),
        "model": ("Model", "模型"),
        "bytes": ("Database", "数据库"),
        "by_type": ("By type", "按类型"),
        "by_space": ("By space", "按空间"),
        "note": ("Note: {message}", "注意：{message}"),
        "tags": ("Tags", "标签"),
        "entities": ("About", "相关"),
        "sources": ("Sources", "来源"),
        "occurred": ("Happened", "发生于"),
        "created_at": ("Stored", "保存于"),
        "superseded_by": ("Superseded by", "被取代于"),
        "reason": ("Deleted because", "删除原因"),
        "metadata": ("Metadata", "元数据"),
        "device_name": ("shoal on {machine}", "shoal on {machine}"),
        "open_browser": (
            "Your browser opens: choose which spaces to share, and tick Sync. If it does not open, go to\n{address}",
            "浏览器将打开：请选择要共享的空间，并勾选“同步”。若未打开，请访问：\n{address}",
        ),
        "open_elsewhere": (
            "Open this address in a browser, on any machine, choose which spaces to share, and tick Sync:\n{address}\n"
            "In the end the browser may say that it can't connect. Copy the address that it shows, and paste it here:",
            "请在任意电脑的浏览器中打开此地址，选择要共享的空间，并勾选“同步”：\n{address}\n"
            "最后浏览器可能提示无法连接。请复制地址栏中的地址，粘贴到这里：",
        ),
        "token_prompt": ("Device token", "设备令牌"),
        "token_seen": (
            "Others on this machine can see the token in the list of processes, and it stays in your shell's history."
            " --token-stdin avoids both.",
            "本机其他用户可在进程列表中看到令牌，它还会留在命令历史中。可改用 --token-stdin。",
        ),
        "linked": ("Linked to {url}.", "已连接 {url}。"),
        "linked_spaces": (
            "It shares: {spaces}. This device may write to: {writable}.",
            "同步空间：{spaces}；可写：{writable}。",
        ),
        "every_space": ("every space", "全部空间"),
        "no_space": ("none", "无"),
        "linked_before": (
            "It was linked to {url} before; everything on this device now goes to the new edge too.",
            "此前连接的是 {url}；此设备上的全部记忆现在也会同步到新的地址。",
        ),
        "linked_lost": (
            "The new token does not reach these spaces; they leave this device after a backup: {spaces}",
            "新令牌不包含以下空间，备份后将从此设备移除：{spaces}",
        ),
        "linked_file": (
            "This system has no keyring, so the token lies in a file that only you can read.",
            "系统没有密钥环，令牌保存在仅您可读的文件中。",
        ),
        "linked_next_daemon": (
            "The daemon begins within seconds; `shoal status` shows how far it is.",
            "后台服务几秒内开始同步；`shoal status` 可查看进度。",
        ),
        "linked_next": (
            "`shoal sync` exchanges memories now; a daemon does so by itself while it runs.",
            "`shoal sync` 立即同步；后台服务运行时会自动同步。",
        ),
        "confirm_unlink": ("End the link to {url}? Every memory stays.", "断开与 {url} 的连接？所有记忆都会保留。"),
        "unlinked": (
            "No longer linked to {url}. Every memory stays, here and there.",
            "已断开 {url}。两端的记忆都保留。",
        ),
        "not_revoked": ("The token is still good at the edge: {why}", "令牌在服务端仍然有效：{why}"),
        "sync_exchanging": ("Exchanging with the edge", "正在同步"),
        "sync_done": ("Sent {sent} changes, received {received}.", "已发送 {sent} 项更改，接收 {received} 项。"),
        "sync_so_far": ("sent {sent}, received {received} so far", "累计发送 {sent} 项，接收 {received} 项"),
        "sync_watching": ("Exchanging with the edge until Ctrl-C.", "持续同步中，按 Ctrl-C 结束。"),
        "sync_gained": ("New on this device: {spaces}", "此设备新增空间：{spaces}"),
        "sync_lost": (
            "The edge shares these spaces no more; they left this device after a backup (`shoal status`): {spaces}",
            "以下空间不再共享，备份后已从此设备移除（见 `shoal status`）：{spaces}",
        ),
        "sync_restored": (
            "The edge's database is of an earlier time, so all was exchanged anew.",
            "服务端数据库已恢复到较早时间，已重新同步全部内容。",
        ),
        "sync_restamped": (
            "This device's clock is ahead; what it wrote was dated anew. Set the clock.",
            "此设备时钟偏快，已重新标记写入时间。请校准时钟。",
        ),
        "sync_refused": (
            "The edge refused {count} changes; `shoal status` says why.",
            "服务端拒绝了 {count} 项更改；原因见 `shoal status`。",
        ),
        "status_edge": ("Edge", "服务端"),
        "status_no_link": ("none: `shoal link URL` links one", "未连接：可用 `shoal link URL` 连接"),
        "status_lost": (
            "This database is not linked, but was to {url}. `shoal link {url}` links it; if memories are missing,"
            " `shoal restore --from-edge` brings back what the edge has.",
            "此数据库未连接，之前连接的是 {url}。可用 `shoal link {url}` 重新连接；若记忆缺失，"
            "用 `shoal restore --from-edge` 从服务端恢复。",
        ),
        "status_now": ("Now", "当前"),
        "status_working": ("exchanging", "正在同步"),
        "status_next": ("looks again in {wait}", "{wait}后再次同步"),
        "status_stopped": ("has stopped until the link is mended", "已停止，待修复连接"),
        "status_no_daemon": (
            "no daemon runs: `shoal sync` exchanges now, `shoal serve` all the time",
            "后台服务未运行：`shoal sync` 立即同步，`shoal serve` 持续同步",
        ),
        "status_last": ("Last worked", "上次成功"),
        "status_never": ("never", "从未"),
        "status_ago": ("{ago} ago", "{ago}前"),
        "status_seconds": ("{count} s", "{count} 秒"),
        "status_minutes": ("{count} min", "{count} 分钟"),
        "status_hours": ("{count} h", "{count} 小时"),
        "status_days": ("{count} days", "{count} 天"),
        "status_waiting": ("Waiting to be sent", "等待发送"),
        "status_nothing": ("nothing", "无"),
        "status_queue": ("{count} changes, the oldest for {age}", "{count} 项更改，最早的已等待 {age}"),
        "status_not_shared": (
            "{count} changes stay here: this device may not write to their spaces at the edge.",
            "{count} 项更改仅保留在本机：此设备无权写入服务端的对应空间。",
        ),
        "status_failure": ("Fails", "失败"),
        "status_since": ("since {since}", "始于 {since}"),
        "status_refused": ("Refused", "被拒绝"),
        "refused_malformed": (
            "{count} changes break a rule of their form, which is a fault of shoal. Please report it; update both ends,"
            " then: shoal sync --retry",
            "{count} 项更改格式有误，属于 shoal 的缺陷，请报告；更新两端后运行：shoal sync --retry",
        ),
        "refused_wrong_id": (
            "{count} changes whose content does not belong to their id: the file may be damaged. Run `shoal doctor`.",
            "{count} 项更改的内容与 id 不符，文件可能损坏。请运行 `shoal doctor`。",
        ),
        "refused_not_allowed": (
            "{count} changes that this device's token may not make (a purge takes `admin`). Allow it on the edge's"
            " account page or link anew, then: shoal sync --retry",
            "{count} 项更改超出此设备令牌的权限（永久清除需要 `admin`）。请在服务端账户页授权或重新连接，"
            "然后运行：shoal sync --retry",
        ),
        "refused_whole": (
            "{count} changes that the edge would not take even alone. Update the edge, then: shoal sync --retry",
            "{count} 项更改单独发送也被服务端拒绝。请更新服务端，然后运行：shoal sync --retry",
        ),
        "refused_other": (
            "{count} changes, for a reason that this version does not know ({code}). Update shoal on this device.",
            "{count} 项更改，原因为此版本未知的 {code}。请更新此设备上的 shoal。",
        ),
        "status_skipped": ("Not understood", "无法识别"),
        "status_skipped_why": (
            "{count} changes of the edge: update shoal on this device.",
            "服务端的 {count} 项更改：请更新此设备上的 shoal。",
        ),
        "status_left": ("Left this device", "已移除"),
        "status_left_how": (
            "{spaces}: the edge shares them no more. {backup} keeps them, with what had not been sent.",
            "{spaces}：服务端不再共享。{backup} 中保留了备份，包括未发送的内容。",
        ),
        "recovering": ("Getting memories from the edge", "正在从服务端获取记忆"),
        "recovered": ("{count} memories came back from {url}.", "已从 {url} 恢复 {count} 条记忆。"),
        "owner_key": (
            "The owner's key: {text}\n"
            "It is shown only now. Keep it where you keep passwords. Case, spaces and dashes don't matter; it holds no"
            " 0, 1, 8 or 9.",
            "所有者密钥：{text}\n只显示这一次，请存入密码管理器。大小写、空格和连字符均可忽略；密钥中没有 0、1、8、9。",
        ),
        "owner_key_sha256": (
            "Its SHA-256: {sha256}\nThe Worker knows the key by this: make it the secret OWNER_KEY_SHA256.",
            "其 SHA-256：{sha256}\nWorker 只凭它辨认密钥：请设为机密 OWNER_KEY_SHA256。",
        ),
    }
)


def chinese(environ: Mapping[str, str]) -> bool:
    """Whether the environment asks for Chinese, by the variables of the locale in their order."""
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        if value := environ.get(name):
            return value.lower().startswith("zh")
    return False


def say(key: str, **values: object) -> str:
    """Return a message in the person's language."""
    return _WORDS[key][chinese(os.environ)].format(**values)
