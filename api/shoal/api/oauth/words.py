"""Every line of the pages, in English and in Chinese. `{}` parts are filled by `pages.told`, which escapes them."""

from enum import Enum
from typing import Final

from shoal.api.messages import Language


class Line(Enum):
    """A line that people read, as (English, Chinese)."""

    # Signing in
    SIGN_IN = ("Sign in", "登录")
    SIGN_IN_FOR_APP = (
        "An app asks to use your memory. Sign in first; then you decide what it may do.",
        "有应用请求使用你的记忆。请先登录，再决定允许它做什么。",
    )
    SIGN_IN_FOR_ACCOUNT = (
        "Sign in to see which apps use your memory.",
        "登录后可以查看哪些应用在使用你的记忆。",
    )
    SECRET = ("Owner key or passphrase", "所有者密钥或口令")
    SECRET_ABOUT = (
        "The owner key is eight groups of four characters. {command} showed it once, when this server was set up."
        " If it is lost, the same command makes a new one to set this server up with.",
        "所有者密钥由八组字符组成，每组四个。部署此服务器时，{command} 只显示过它一次。"
        "如果丢失，用同一命令生成新的密钥，再设置到此服务器上。",
    )
    WRONG_SECRET = (
        "This is neither the owner key nor the passphrase. Nothing else is wrong: try again.",
        "这既不是所有者密钥，也不是口令。请重试。",
    )
    WRONG_SECRET_WAIT = (
        "This is neither the owner key nor the passphrase. Try again after {minutes} min.",
        "这既不是所有者密钥，也不是口令。请在 {minutes} 分钟后重试。",
    )
    LOCKED = (
        "This way of signing in has failed too often from your network. Try again after {minutes} min. The owner key"
        " and the passphrase are counted apart.",
        "这种登录方式在你的网络中失败的次数过多。请在 {minutes} 分钟后重试。所有者密钥和口令分别计数。",
    )
    ONLY_KEY = (
        "Passphrases have failed too often, so only the owner key is taken for the next {minutes} min.",
        "口令输错的次数过多，{minutes} 分钟内只能用所有者密钥登录。",
    )
    PASSPHRASE_UNUSABLE = (
        "The passphrase was set by another version and can't be checked by this one. Use the owner key, then set a"
        " passphrase anew.",
        "口令由另一个版本设置，当前版本无法验证。请用所有者密钥登录，再重新设置口令。",
    )

    # Letting an app in
    CONSENT = ("Let this app in?", "允许这个应用接入吗？")
    WANTS_IN = ("{name} asks to use your memory.", "{name} 请求使用你的记忆。")
    NAME_PROVES_NOTHING = (
        "The app has chosen this name itself, so it proves nothing. Go by the address below, and by whether you have"
        " just begun to connect an app.",
        "这个名称由应用自己填写，不能证明任何事。请看下面的地址，并想一想你是否刚刚在连接应用。",
    )
    ANSWER_GOES_TO = ("Your answer goes to", "你的答复将发送到")
    ANSWER_GOES_TO_APP = (
        "Your answer opens the app on this device that takes {scheme} links.",
        "你的答复将打开本设备上处理 {scheme} 链接的应用。",
    )
    APP_ON_DEVICE = (
        "Any app on this device may have signed up for such links. Go on only if you have just begun to connect it.",
        "本设备上的任何应用都可能登记处理这类链接。只有在你刚刚亲自发起连接时才继续。",
    )
    THIS_COMPUTER = (
        "This is your own computer: any program on it could be the one that listens there. Go on only if you have just"
        " begun to connect the app, on this computer.",
        "这是你自己的电脑：上面的任何程序都可能在这个地址接收答复。只有在你刚刚于这台电脑上亲自发起连接时才继续。",
    )
    KNOWN_REGISTERED = (
        "It registered itself here. Nobody has checked who made it.",
        "它自行在此注册，没有人核实过它出自谁手。",
    )
    KNOWN_DOCUMENT = ("It is described by a document on {host}.", "它的说明文件位于 {host}。")
    KNOWN_GIVEN = ("You set it up here yourself.", "它是你事先在此设置的。")
    WHAT_MAY_IT_DO = ("What may it do?", "允许它做什么？")
    ASKED = ("It asks for: {scopes}.", "它请求：{scopes}。")
    NOTHING_YET = (
        "Choose for each space. What you don't check it can neither do nor see.",
        "请按空间选择。没有勾选的，它既不能做，也看不到。",
    )
    READ = ("read", "读取")
    WRITE = ("write", "写入")
    ADMIN = ("administer", "管理")
    SYNC = ("sync", "同步")
    READ_ABOUT = ("Read: find and show memories.", "读取：查找并查看记忆。")
    WRITE_ABOUT = (
        "Write: store memories; with read also change and delete them.",
        "写入：保存记忆；若同时允许读取，还可以修改和删除记忆。",
    )
    ADMIN_ABOUT = (
        "Administer: also erase memories for good, which can't be undone.",
        "管理：还可以永久清除记忆，无法恢复。",
    )
    SYNC_BOX = (
        "Sync: keep a full copy of the spaces allowed above on another device",
        "同步：在另一台设备上保存上面所允许空间的完整副本",
    )
    EVERY_SPACE = ("Every space, also later ones", "所有空间，包括以后新建的")
    OTHER_SPACE = ("Another space, by name", "其他空间（填写名称）")
    MORE_SPACES = (
        "Only the first {count} spaces are listed. Name others in the field.",
        "这里只列出前 {count} 个空间。其他空间请在输入框中填写名称。",
    )
    BAD_SPACE = (
        "No space can have this name: a name has 1 to {limit} characters, and {star} stands for all. Nothing has been"
        " allowed yet.",
        "空间不能用这个名称：名称须有 1 到 {limit} 个字符，{star} 表示所有空间。目前尚未允许任何内容。",
    )
    SPACE_UNNAMED = (
        "You checked boxes for another space without naming it. Nothing has been allowed yet.",
        "你为其他空间勾选了权限，却没有填写名称。目前尚未允许任何内容。",
    )
    SYNC_ALONE = (
        "Sync reaches only spaces that are allowed above, and you allowed none. Nothing has been allowed yet.",
        "同步只涉及上面所允许的空间，而你没有允许任何空间。目前尚未允许任何内容。",
    )
    HOW_LONG = ("For how long?", "有效期多长？")
    UNTIL_REVOKED = ("Until I revoke it", "直到我撤销为止")
    ONE_DAY = ("1 day", "1 天")
    DAYS_30 = ("30 days", "30 天")
    DAYS_90 = ("90 days", "90 天")
    ALLOW = ("Allow", "允许")
    DENY = ("Don't allow", "不允许")
    CAN_BE_REVOKED = (
        "You can take this back at any time under {link}.",
        "你可以随时在“{link}”中撤销。",
    )

    # Going back to the app
    BACK_TO_APP = ("Back to the app", "返回应用")
    APP_OPENS = (
        "The app should open by itself. If it doesn't, use the button. After that this page can be closed.",
        "应用会自动打开。如果没有打开，请点击按钮。之后可以关闭此页面。",
    )
    OPEN_APP = ("Open the app", "打开应用")

    # What goes wrong
    UNKNOWN_APP = ("This app isn't known here", "这里不认识这个应用")
    UNKNOWN_APP_MEND = (
        "It was never registered with this server, or has been deleted since. Nothing was sent to it. In the app,"
        " remove this connection and connect again.",
        "它从未在此服务器注册，或者注册已被删除。没有向它发送任何内容。请在应用中移除此连接，然后重新连接。",
    )
    WRONG_ADDRESS = ("The app's address doesn't fit", "应用的回调地址不符")
    WRONG_ADDRESS_MEND = (
        "The app wants its answer sent to an address that isn't registered for it, so nothing was sent. Begin again"
        " from the app; if this page comes back, remove the connection there and connect again.",
        "应用要求把答复发送到一个没有为它登记的地址，因此没有发送任何内容。请从应用重新开始；如果仍看到此页面，"
        "请在应用中移除此连接，然后重新连接。",
    )
    UNREADABLE = ("This request can't be read", "无法读取这个请求")
    UNREADABLE_MEND = (
        "Something is missing from it, or is in it twice. Nothing was done. Begin again from the app.",
        "其中缺少内容，或者有重复的内容。没有执行任何操作。请从应用重新开始。",
    )
    FORM_GONE = ("This form is no longer open", "这个表单已失效")
    FORM_GONE_MEND = (
        "It was sent already, has expired, or was opened before you signed in again. If the app is connected, all is"
        " well; otherwise begin again from the app.",
        "它已经提交过、已经过期，或者是在你重新登录之前打开的。如果应用已经连接，则一切正常；否则请从应用重新开始。",
    )
    FORM_GONE_ACCOUNT_MEND = (
        "It was sent already, has expired, or was opened before you signed in again. Open the page anew and look"
        " whether it was done.",
        "它已经提交过、已经过期，或者是在你重新登录之前打开的。请重新打开页面，查看操作是否已完成。",
    )
    FOREIGN_FORM = ("This form came from elsewhere", "这个表单来自其他网站")
    FOREIGN_FORM_MEND = (
        "It wasn't sent by a page of this server, so nothing was done. Open the page on this server and try again.",
        "它不是由此服务器的页面提交的，因此没有执行任何操作。请在此服务器上打开页面后重试。",
    )
    NO_SUCH_PAGE = ("There is no such page", "没有这个页面")
    NO_SUCH_PAGE_MEND = (
        "Start again from the app that brought you here, or open /account.",
        "请从带你来到这里的应用重新开始，或打开 /account。",
    )
    TOO_OFTEN = ("Too many requests", "请求过于频繁")
    TOO_OFTEN_MEND = ("Wait a minute, then load the page again.", "请等待一分钟，然后重新加载页面。")
    NOT_SHOWN = ("This page can't be shown now", "暂时无法显示这个页面")
    NOT_SHOWN_MEND = (
        "Try again in a moment. If it stays, here is what the server says:",
        "请稍后重试。如果问题仍然存在，以下是服务器的说明：",
    )
    DETAIL = ("For whoever made the app: {detail}", "给应用开发者的说明：{detail}")
    NOT_NOW = ("The app can't be looked up now", "暂时无法查询这个应用")
    NOT_NOW_MEND = (
        "Nothing was sent to it. Wait a minute, then begin again from the app.",
        "没有向它发送任何内容。请等一分钟，再从应用重新开始。",
    )

    # Connected apps
    ACCOUNT = ("Connected apps", "已连接的应用")
    NO_APPS = (
        "No app is connected. To connect one, enter {address} in it as a remote MCP server.",
        "还没有连接任何应用。要连接应用，请在其中填写远程 MCP 服务器地址 {address}。",
    )
    DEVICE = ("Device or script", "设备或脚本")
    MAY = ("May", "权限")
    IN_SPACE = ("{space}: {scopes}", "{space}：{scopes}")
    SINCE = ("Since", "开始时间")
    LAST_USED = ("Last used", "上次使用")
    NEVER_USED = ("never", "从未使用")
    UNTIL = ("Until", "有效期")
    NO_END = ("you revoke it", "直到你撤销为止")
    WRITES = ("Writes and deletes", "写入和删除")
    NO_WRITES = ("none in the log", "日志中没有记录")
    WRITES_LAST = ("{count}, the last ones:", "{count} 次，最近几次：")
    WRITES_AT_LEAST = ("{count} or more, the last ones:", "{count} 次以上，最近几次：")
    WRITE_AT = ("{time}: {action} {count} in {space}", "{time}：在 {space} 中{action} {count} 条")
    ACTION_STORE = ("stored", "保存")
    ACTION_UPDATE = ("changed", "修改")
    ACTION_DELETE = ("deleted", "删除")
    ACTION_PURGE = ("erased", "永久清除")
    ACTION_REVIVE = ("restored", "恢复")
    ANSWERS_TO = ("Answers go to", "答复发送到")
    REVOKE = ("Revoke", "撤销")
    REVOKE_NAMED = ("Revoke {name}", "撤销 {name}")
    REVOKED = ("Revoked. It can't reach your memory any more.", "已撤销，它不能再访问你的记忆。")
    MORE_APPS = (
        "Only the {count} that were let in last are shown.",
        "这里只显示最近允许的 {count} 个。",
    )
    MAKE_TOKEN = ("Make a token for a device or script", "为设备或脚本生成令牌")
    TOKEN_ABOUT = (
        "For what can't open a browser. It is sent as {header} and shown once.",
        "用于无法打开浏览器的场合。以 {header} 发送，只显示一次。",
    )
    TOKEN_NAME = ("Name of the device or script", "设备或脚本的名称")
    MAKE = ("Make token", "生成令牌")
    TOKEN_TITLE = ("Copy the token now", "请立即复制令牌")
    TOKEN_MADE = ("The token for {name}:", "{name} 的令牌：")
    TOKEN_ONCE = (
        "It is shown only this once. Keep it as you keep a password.",
        "它只显示这一次。请像保管密码一样保管。",
    )
    TOKEN_NAME_BAD = (
        "The device needs a name of 1 to {limit} characters. No token was made.",
        "请填写设备名称，1 到 {limit} 个字符。没有生成令牌。",
    )
    TOKEN_NOTHING = (
        "Nothing was checked, so the token could do nothing. No token was made.",
        "没有勾选任何权限，令牌将毫无用处。没有生成令牌。",
    )
    PASSPHRASE = ("Passphrase", "口令")
    PASSPHRASE_NONE = (
        "None is set: you sign in with the owner key. You may choose a passphrase to sign in with as well.",
        "尚未设置，目前用所有者密钥登录。你也可以另设一个口令用于登录。",
    )
    PASSPHRASE_SET = (
        "One is set. The owner key works as well. Changing or removing it signs all other browsers out.",
        "已设置口令，所有者密钥同样有效。更改或移除口令会使其他浏览器退出登录。",
    )
    NEW_PASSPHRASE = ("New passphrase", "新口令")
    PASSPHRASE_AGAIN = ("The same again", "再输入一次")
    PASSPHRASE_ABOUT = (
        "At least {count} characters: four or more words that don't belong together.",
        "至少 {count} 个字符：四个以上互不相关的词。",
    )
    SET_PASSPHRASE = ("Set passphrase", "设置口令")
    REMOVE_PASSPHRASE = ("Remove passphrase", "移除口令")
    PASSPHRASE_CHANGED = (
        "The passphrase is set. All other browsers have been signed out.",
        "口令已设置。其他浏览器均已退出登录。",
    )
    PASSPHRASE_REMOVED = (
        "The passphrase is removed: only the owner key signs in. All other browsers have been signed out.",
        "口令已移除，只能用所有者密钥登录。其他浏览器均已退出登录。",
    )
    PASSPHRASES_DIFFER = (
        "The two passphrases differ. Nothing was changed.",
        "两次输入的口令不同。没有任何更改。",
    )
    SIGNING_OUT = ("Sign out", "退出登录")
    SIGN_OUT = ("Sign out here", "在此退出登录")
    SIGN_OUT_EVERYWHERE = ("Sign out everywhere", "在所有浏览器退出登录")
    SIGNED_OUT = ("You are signed out.", "你已退出登录。")
    SIGNED_OUT_ABOUT = (
        "Connected apps stay connected until they are revoked.",
        "已连接的应用保持连接，直到被撤销。",
    )
    TOKEN_ADDRESS = ("Server: {address}", "服务器：{address}")
    GONE_ALREADY = (
        "It had ended already: there was nothing to revoke.",
        "它早已结束，没有可撤销的内容。",
    )
    ALL_OF = ("{first}, {second}", "{first}、{second}")


_PLACES: Final = {Language.ENGLISH: 0, Language.CHINESE: 1}


def said(line: Line, language: Language) -> str:
    """Return a line in a language, its `{}` parts still to be filled."""
    return line.value[_PLACES[language]]
